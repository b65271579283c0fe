"""The end of a run: evaluates, compares and registers its policies, and writes what came of it into its summary."""

from __future__ import annotations

import logging
import time
from functools import partial

from zenml.models import PipelineRunResponse

from mlops.record.run import Record
from mlops.registry.named import NamedVersion, current_champion
from mlops.runs.results import make_history
from mlops.runs.resuming import has_step
from mlops.runs.starting import registry_name
from mlops.summary.arms import (
    arm_metrics,
    cost_of,
    difference,
    part_differences,
    promotion_section,
    several_attempts,
    status_of,
    unregistered,
)
from mlops.tracking.address import tracking_address
from mlops.tracking.answers import answering
from mlops.tracking.run import Tracker
from pipelines.arms import Arms, Starts, evaluate_arms
from pipelines.caveats import note_contamination, note_forgetting
from pipelines.promotion import decide_and_register
from pipelines.rounds_done import Rounds
from pipelines.stages import Artifact, Stages
from rlft.controls.constant import ConstantAnswer
from rlft.diagnosis import diagnose
from rlft.errors import TrackerError
from rlft.evaluation import report_numbers
from rlft.pass_at_k import compare_pass_at_k
from rlft.types import add_judging
from rlft.variety import collapse
from steps.fetch_champion import fetch_champion

logger = logging.getLogger(__name__)
_UNSCORED = "none of its attempts on `test` has a score; `rlft run --no-cache` makes them again"


def conclude(
    stages: Stages,
    tasks: Artifact,
    starts: Starts,
    rounds: Rounds,
    record: Record,
    tracking_uri: str,
    run: PipelineRunResponse,
    *,
    anew: bool = False,
) -> None:
    """Evaluate all arms, decide, register the trained policy, and complete the summary of `run`.

    `anew` says that the policy may have been decided on before. Raises TrackerError, with all but the registration in
    the summary, if MLflow does not answer.
    """
    name = registry_name(stages.config)
    started = time.perf_counter()
    find_champion = partial(_champion, tracking_address(tracking_uri), name, record.tracker, run)
    arms, champion = evaluate_arms(stages, tasks, starts, rounds, find_champion, record.tracker, tracking_uri)
    _summarise_arms(stages, arms, rounds, record)
    _diagnose(stages, tasks, rounds, record)
    if stages.config.evaluation.pass_at_k:
        _compare_several_attempts(stages, tasks, starts.start, rounds.best, record)
    note_contamination(stages, tasks, arms, record)
    note_forgetting(stages, starts, rounds, record)
    record.seconds.evaluate = time.perf_counter() - started
    try:
        if champion.unknown is not None:
            raise champion.unknown  # a decision without the champion might put a worse policy in its place
        told = {"summary": record.summary.model_dump(mode="json"), "audit": record.audit, "code": record.code}
        decision, version = decide_and_register(
            stages, tasks, arms, champion, rounds, record.tracker, tracking_uri, record.tags, told, anew=anew
        )
    except TrackerError as cause:
        record.summary.promotion = unregistered(cause.what, name, record.resume)
        raise
    record.summary.promotion = promotion_section(decision, version, name, anew=anew)


def _champion(address: str, name: str, tracker: Tracker, run: PipelineRunResponse) -> NamedVersion | None:
    """Return the champion to compare with; `None` if there is none but what this run made before it was resumed.

    An attempt that has compared with a champion keeps the steps of that.
    """
    with answering(address):
        champion = current_champion(address, name)
    own = champion is not None and champion.run_id == tracker.run_id
    return None if own and not has_step(run.original_run, fetch_champion.name) else champion


def _summarise_arms(stages: Stages, arms: Arms, rounds: Rounds, record: Record) -> None:
    """Log the metrics of all arms, and put them, their differences and the run's status into the summary."""
    metric = stages.config.evaluation.metric
    loaded, controls = arms.load(), arms.load_controls()
    for name, result in loaded.items():
        setattr(record.summary, name, arm_metrics(result))
    for name, result in {**loaded, **{f"{name}_control": result for name, result in controls.items()}}.items():
        flat = {split: report_numbers(report) for split, report in result.splits.items()}
        record.tracker.log_json(f"evaluations/{name}.json", flat)
    compared = [*loaded.values(), *(each for name, each in controls.items() if name != "constant")]
    record.note_judging("evaluation", add_judging(each.judging for each in compared))
    record.note_judging("controls", add_judging(each.judging for each in arms.reports.values()))
    record.note_judging("constant_answer", arms.constant.load().judging)
    trained, base = loaded["final"], loaded["base"]
    record.summary.difference_base = difference(trained, base, metric)
    record.trained = trained.splits["test"].metrics.get(metric)
    start = loaded.get("warm_start", base)
    record.summary.difference = difference(trained, start, metric)
    record.summary.differences = part_differences(trained, start)
    record.summary.collapsed = collapse(trained.splits["test"], start.splits["test"])
    record.summary.controls = {name: arm_metrics(result) for name, result in controls.items()}
    record.summary.difference_controls = {
        name: difference(trained, result, metric) for name, result in controls.items()
    }
    record.summary.control_costs = {
        name: cost_of(report, rounds.attempt_tokens()) for name, report in arms.reports.items()
    }
    unscored = [name for name, change in record.summary.difference_controls.items() if change is None]
    record.summary.controls_left_out = {**arms.left_out, **dict.fromkeys(unscored, _UNSCORED)}
    named = stages.config.other_model
    record.summary.control_model = named.model if named else ""
    record.summary.sft_control = record.summary.controls.get("sft", {})
    record.summary.difference_sft_control = record.summary.difference_controls.get("sft")
    if isinstance(constant := controls.get("constant"), ConstantAnswer):
        record.summary.constant_answer = None if constant.texts else constant.text
        record.summary.constant_answers = constant.texts
        record.tracker.log_json("constant_answers.json", constant.tried)
    record.summary.status = status_of(record.summary.difference)
    if record.summary.status == "failed":
        record.summary.error = (
            "no task of `test` was scored for both policies, so that nothing is known about the trained one; the "
            "errors of its rollouts (`rlft show`) name the cause"
        )


def _diagnose(stages: Stages, tasks: Artifact, rounds: Rounds, record: Record) -> None:
    """Note why the reward of a run that did not improve has not risen."""
    if record.summary.status != "improved":
        history = make_history(stages.config, rounds.reports, rounds.validated, len(tasks.load().split("train")))
        record.summary.diagnosis = [finding.text for finding in diagnose(history)]


def _compare_several_attempts(
    stages: Stages, tasks: Artifact, start: Artifact, trained: Artifact, record: Record
) -> None:
    """Compare pass@k of the policies before and after training; as a curve in MLflow, k is the step."""
    policies = {"start": start, "trained": trained}
    often = [stages.attempt_often(policy, tasks, name).load() for name, policy in policies.items()]
    record.note_judging("several_attempts", add_judging(each.judging for each in often))
    before, after = (each.splits["test"] for each in often)
    record.summary.pass_at_k = found = several_attempts(compare_pass_at_k(before, after))
    if found is None:
        logger.warning("pass@k is not known: all attempts of one of the policies failed")
        return
    record.tracker.log_json("pass_at_k.json", found.model_dump())
    for k, (of_start, of_trained) in enumerate(zip(found.start, found.trained, strict=True), start=1):
        curves = {"eval/start/test/pass_at_1_to_n": of_start, "eval/trained/test/pass_at_1_to_n": of_trained}
        record.tracker.log_metrics(curves, step=k)
