"""The pipeline `train`: tasks, reward audit, policy, baseline, rounds of training, evaluation, decision, registry.

`rlft/iteration.py` shows one round of it in one process.
"""

from __future__ import annotations

import time
from typing import Any

from zenml import pipeline

from mlops.runs.labels import labels_of
from mlops.runs.resuming import naming_damage
from mlops.runs.runtime import Lent, current_run, shared_runtime, start_runtime, stop_runtime
from mlops.runs.store import stored_config
from mlops.tracking.address import tracking_address
from pipelines.arms import ARM_STEPS, Starts
from pipelines.conclusion import LAST_STEPS, conclude
from pipelines.gate import check_slices
from pipelines.observer import Observer
from pipelines.opening import open_run
from pipelines.rounds import run_rounds
from pipelines.stages import STAGE_STEPS, Stages
from pipelines.watching import Watch, check_honest
from rlft.config import Config
from rlft.evaluation.stopping import Account
from rlft.models.origin import choose_device
from rlft.reporting.bars import Display
from rlft.rewards.audit.rewards import check_audit
from steps.promotion import write_report

# All steps that the body may call: ZenML compiles them with the pipeline, before its body runs.
STEPS = [*STAGE_STEPS, *ARM_STEPS, *LAST_STEPS, write_report]


@pipeline(dynamic=True, depends_on=STEPS, on_init=start_runtime, on_cleanup=stop_runtime)
def train(config: dict[str, Any], tracking_uri: str, labels: dict[str, Any] | None = None, anew: bool = False) -> None:
    """Run one experiment from tasks to registry.

    `config` is a `rlft.config.Config` as `mlops.runs.store` stores it, `tracking_uri` an address of MLflow or
    `home`, `labels` the `mlops.runs.labels.Labels` that the run was started with. `anew` says that a run which is over
    is decided on once more (`pipelines.promotion_plan`).

    Raises RewardAuditError if the audit finds that the reward would teach the wrong thing.
    """
    settings, began, display = stored_config(config, "config"), time.perf_counter(), Display()
    stages, address = Stages.of(settings, display.stage), tracking_address(tracking_uri)
    with open_run(settings, stages.fingerprints, address, labels_of(labels)) as seen, naming_damage(current_run()):
        shared_runtime().lent = _lend(display, seen, settings)
        with seen.timed("setup"):
            tasks = stages.ingest(tracking_uri)
            check_slices(tasks.load().split("gate"), settings)
            seen.tasks(tasks.load())
            if settings.reward.audit:
                audit = stages.audit(tasks).load()
                seen.audited(audit)
                check_audit(audit, settings)
            other = stages.initialize_other(tasks)
            base, prompts = stages.initialize(tasks)
            if prompts.load().left_out:
                tasks = stages.leave_out(tasks, prompts)
                seen.tasks(tasks.load())
            seen.tracker.log_tasks(tasks.load(), tasks.load().notes["tasks"]["source"])
        start = base
        if settings.warm_start is not None:
            start, report = stages.supervise(base, tasks)
            seen.warm_started(report.load())
        seen.keep()

        baseline = stages.baseline(start, tasks).load()
        check_honest(baseline.splits["validation"], settings)
        if seen.baseline(baseline):
            stages = stages.comparing(baseline)
            seen.compares(stages.config, tasks.load())
            account = Account(settings.budget, seen.gpus, seconds=time.perf_counter() - began)
            shown = "reading what the run has stored, nothing is trained" if anew else "training"
            watch = Watch(stages, tasks, seen.tracker)
            with seen.timed("rounds"):
                rounds = run_rounds(
                    stages, tasks, start, seen.tracker, account, seen.rounds_so_far, watch=watch, shown=shown
                )
            seen.rounds(rounds)
            conclude(stages, tasks, Starts(base, start, other), rounds, seen, tracking_uri, anew=anew)

        seen.measure()  # for the page; what is written of the run comes after it
        with stages.show("report"):
            seen.page = write_report(str(current_run().id), seen.summary.model_dump(mode="json"))


def _lend(display: Display, seen: Observer, settings: Config) -> Lent:
    """Return what the body lends to the steps of its process, and count the GPUs of trainers on other machines, too."""
    if choose_device(settings.policy.device).type == "cuda":
        seen.gpus = max(seen.gpus, settings.trainers)
    return Lent(progress=display.report, distributed=settings.distributed)
