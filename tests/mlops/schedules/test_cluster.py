"""What ZenML is given for a schedule that a cluster keeps, and what is refused."""

from __future__ import annotations

import pytest

from mlops.schedules.cluster import check_for_cluster, cluster_options
from rlft.config.file import load_config
from rlft.errors import ConfigError
from rlft.schedule.settings import ScheduleConfig
from tests.e2e.conftest import TINY

PLAIN = {"name": "weekly", "config": "tiny.yaml", "cron": "0 4 * * mon", "stack": "gpu"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"when": "new_tasks"}, "when: nothing looks for reasons in a cluster"),
        ({"timezone": "Europe/Berlin"}, "timezone: ZenML gives a CronJob no time zone"),
        ({"overlap": "queue"}, "overlap: a CronJob cannot wait"),
        ({"notify": {"command": ["true"]}}, "notify: nobody tells from there"),
    ],
)
def test_what_a_cluster_cannot_keep_is_refused(change, said):
    check_for_cluster(ScheduleConfig.model_validate(PLAIN))
    with pytest.raises(ConfigError, match=said):
        check_for_cluster(ScheduleConfig.model_validate(PLAIN | change))


def test_everything_that_is_refused_is_told_at_once():
    with pytest.raises(ConfigError) as raised:
        check_for_cluster(ScheduleConfig.model_validate(PLAIN | {"when": "new_tasks", "overlap": "queue"}))
    assert raised.value.what.count("\n") == 2


@pytest.mark.parametrize(("missed", "deadline"), [("run", None), ("skip", 300)])
def test_the_schedule_of_zenml_has_its_times_and_the_cron_job_its_limits(missed, deadline):
    from pipelines.train import train

    schedule = ScheduleConfig.model_validate(PLAIN | {"missed": missed, "grace_minutes": 5.0, "retries": {"count": 4}})
    options = cluster_options(schedule, load_config(TINY))
    made = train.with_options(**options)
    given = made._run_args["schedule"]  # what ZenML registers when the pipeline is called
    assert (given.name, given.cron_expression, given.catchup) == ("rlft-weekly", "0 4 * * mon", False)
    assert made._run_args["run_name"] == "weekly-{date}-{time}"
    settings = options["settings"]["orchestrator"]
    assert settings.concurrency_policy == "Forbid"
    assert (settings.starting_deadline_seconds, settings.orchestrator_job_backoff_limit) == (deadline, 4)
    assert options["tags"][1] == "schedule=weekly"
