"""Schedules that a cluster keeps itself: ZenML schedules, on an orchestrator that schedules dynamic pipelines.

Of ZenML's orchestrators only that of Kubernetes does: it makes a CronJob, whose pods need nothing of this machine. So
what a machine would do for a schedule is refused there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlops.home.folder import Home
from mlops.ids import EXPERIMENT_TAG
from mlops.runs.store import as_parameter
from mlops.schedules.settings import ScheduleConfig, overrides_of
from mlops.schedules.store import Stored
from mlops.stacks.image import check_image, pod_options
from mlops.stacks.stack import connect
from rlft.config import Config
from rlft.config.file import load_config
from rlft.errors import ConfigError

Submit = Callable[[dict[str, Any], dict[str, Any]], None]


def keep_in_cluster(home: Home, stored: Stored, before: Stored | None, submit: Submit) -> str:
    """Make the ZenML schedule of a schedule, in the place of the one that it had `before`, and return its name.

    It is empty where the stack's orchestrator does not schedule such pipelines: runs are made from this machine then.
    `submit` calls the pipeline of runs with options and arguments. Raises RlftError
    for a stack that cannot run it, and for settings that a cluster cannot keep; the earlier ZenML schedule stays then.
    """
    schedule, config = stored.schedule, None
    if schedule.stack is not None:
        connect(home, schedule.stack)
        from zenml.client import Client

        if Client().active_stack.orchestrator.flavor == "kubernetes":
            check_for_cluster(schedule)
            config = load_config(Path(schedule.config), overrides_of(schedule))
            check_image(config)
    if before is not None and before.cluster:
        drop_from_cluster(home, before)  # first, as both have one name, and on the stack that it was made on
    if config is None:
        return ""
    tracking_uri = connect(home, schedule.stack)
    # Without labels a run has the name that ZenML gives it when its time has come.
    submit(
        cluster_options(schedule, config),
        {"config": as_parameter(config), "tracking_uri": tracking_uri, "labels": None},
    )
    return f"rlft-{stored.name}"


def check_for_cluster(schedule: ScheduleConfig) -> None:
    """Raise ConfigError, which lists every setting that a cluster cannot keep."""
    refused = {
        "when: nothing looks for reasons in a cluster; write always": not schedule.when.is_always,
        "notify: nobody tells from there; leave it out": schedule.notify.webhook is not None,
        "timezone: ZenML gives a CronJob no time zone; write cron in UTC": schedule.timezone.key != "UTC",
    }
    if wrong := [f"  {said}" for said, is_wrong in refused.items() if is_wrong]:
        fix = "change these, or leave `stack` out and let this machine make the runs"
        raise ConfigError("a cluster cannot keep this schedule:\n" + "\n".join(wrong), where=schedule.name, fix=fix)


def cluster_options(schedule: ScheduleConfig, config: Config) -> dict[str, Any]:
    """Return what `train.with_options` takes: when, and how the CronJob treats overlaps and pods that fail."""
    from zenml.config.schedule import Schedule
    from zenml.integrations.kubernetes.flavors import KubernetesOrchestratorSettings
    from zenml.utils.tag_utils import Tag

    settings = KubernetesOrchestratorSettings(
        concurrency_policy="Forbid", orchestrator_job_backoff_limit=schedule.retries.count
    )
    options, experiment = (
        pod_options(config),
        Tag(name=f"{EXPERIMENT_TAG}={config.tracking.experiment or config.name}", cascade=True),
    )
    return {
        "run_name": f"{schedule.name}-{{date}}-{{time}}",
        "schedule": Schedule(name=f"rlft-{schedule.name}", cron_expression=schedule.cron),
        **options,
        "settings": {"orchestrator": settings, **options["settings"]},
        "tags": [experiment, f"schedule={schedule.name}"],
    }


def drop_from_cluster(home: Home, stored: Stored) -> None:
    """Delete the ZenML schedule of a schedule from its stack, and with it the CronJob."""
    connect(home, stored.schedule.stack)
    from zenml.client import Client

    with suppress(KeyError):  # somebody has deleted it with ZenML's own command
        Client().delete_schedule(stored.cluster)
