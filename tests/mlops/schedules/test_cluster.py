"""What ZenML is given for a schedule that a cluster keeps, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from mlops.schedules.cluster import check_for_cluster, cluster_options, keep_in_cluster
from mlops.schedules.settings import ScheduleConfig
from mlops.schedules.store import Stored
from rlft.config.file import load_config
from rlft.errors import ConfigError
from rlft.types.formats import CONFIG, KEY
from tests.e2e.conftest import TINY

NOW = datetime(2026, 3, 2, tzinfo=UTC)
PLAIN = {"name": "weekly", "config": "tiny.yaml", "cron": "0 4 * * mon", "stack": "gpu"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"when": "new_tasks"}, "when: nothing looks for reasons in a cluster"),
        ({"timezone": "Europe/Berlin"}, "timezone: ZenML gives a CronJob no time zone"),
        ({"notify": {"webhook": "env:HOOK"}}, "notify: nobody tells from there"),
    ],
)
def test_what_a_cluster_cannot_keep_is_refused(change, said):
    check_for_cluster(ScheduleConfig.model_validate(PLAIN))
    with pytest.raises(ConfigError, match=said):
        check_for_cluster(ScheduleConfig.model_validate(PLAIN | change))


def test_everything_that_is_refused_is_told_at_once():
    with pytest.raises(ConfigError) as raised:
        check_for_cluster(ScheduleConfig.model_validate(PLAIN | {"when": "new_tasks", "timezone": "Europe/Berlin"}))
    assert raised.value.what.count("\n") == 2


def test_the_schedule_of_zenml_has_its_times_and_the_cron_job_its_limits():
    from pipelines.train import train

    schedule = ScheduleConfig.model_validate(PLAIN | {"retries": {"count": 4}})
    options = cluster_options(schedule, load_config(TINY))
    made = train.with_options(**options)
    given = made._run_args["schedule"]  # what ZenML registers when the pipeline is called
    assert (given.name, given.cron_expression, given.catchup) == ("rlft-weekly", "0 4 * * mon", False)
    assert made._run_args["run_name"] == "weekly-{date}-{time}"
    settings = options["settings"]["orchestrator"]
    assert (settings.concurrency_policy, settings.orchestrator_job_backoff_limit) == ("Forbid", 4)
    assert options["tags"][1] == "schedule=weekly"


class Cluster:
    """ZenML's client of the stack that is connected, which notes what is deleted where."""

    def __init__(self):
        self.stack, self.done = "", []
        flavors = {"orchestrator": "kubernetes", "artifact_store": "s3"}
        self.active_stack = SimpleNamespace(**{kind: SimpleNamespace(flavor=name) for kind, name in flavors.items()})

    def connect(self, home, stack):
        self.stack = stack
        return f"http://mlflow of {stack}"

    def delete_schedule(self, name):
        self.done.append(("deleted", self.stack, name))


@pytest.fixture
def cluster(monkeypatch):
    made = Cluster()
    monkeypatch.setattr("mlops.schedules.cluster.connect", made.connect)
    monkeypatch.setattr("zenml.client.Client", lambda: made)
    monkeypatch.setattr("mlops.schedules.cluster.check_image", lambda config: None)
    return made


def stored(cluster="", **changes):
    return Stored(content=PLAIN | {"config": str(TINY)} | changes, folder=Path("."), since=NOW, cluster=cluster)


def test_a_schedule_that_moves_to_another_stack_is_deleted_on_the_one_it_was_on(cluster):
    def submit(options, arguments):
        cluster.done.append(("made", cluster.stack, arguments["tracking_uri"]))
        assert arguments["config"][KEY] == CONFIG.version  # as any stored config says it

    before = stored("rlft-weekly", stack="old")
    assert keep_in_cluster(None, stored(stack="new"), before, submit) == "rlft-weekly"
    assert cluster.done == [("deleted", "old", "rlft-weekly"), ("made", "new", "http://mlflow of new")]


def test_a_schedule_that_comes_back_to_this_machine_leaves_none_in_the_cluster(cluster):
    assert keep_in_cluster(None, stored(stack=None), stored("rlft-weekly", stack="old"), None) == ""
    assert cluster.done == [("deleted", "old", "rlft-weekly")]


def test_what_is_refused_leaves_the_earlier_schedule_as_it_is(cluster):
    with pytest.raises(ConfigError, match="a cluster cannot keep this schedule"):
        keep_in_cluster(None, stored(when="new_tasks"), stored("rlft-weekly"), None)
    assert cluster.done == []
