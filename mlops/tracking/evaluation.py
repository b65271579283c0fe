"""The MLflow runs of an evaluation, in the shape of MLflow's own (`mlflow.genai.evaluate` of 3.17).

Each model at each cell is a run of type `genai_evaluate` with one trace an attempt, so that the page of evaluations
lists it, shows its conversations with their scores as a table, and puts two models side by side. The call is a run
above them, with the differences.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Assessment, Expectation, LoggedModelInput

from mlops.tracking.address import check_reachable, quick_http
from mlops.tracking.run import Tracker
from mlops.tracking.traces import (
    SOURCE,
    MadeTrace,
    choose_rollouts,
    prompt_count,
    reward_feedback,
    root_span_id,
    store_rollouts,
    trace_id,
    trace_key,
    trace_of,
)
from mlops.tracking.values import reason_of
from rlft.suites.measures import CellMeasures
from rlft.types import Rewards, Rollout, Rollouts, Task, TaskSet

logger = logging.getLogger(__name__)

TYPE_TAG, TYPE = "mlflow.runType", "genai_evaluate"
PARENT_TAG = "mlflow.parentRunId"
CELL_TAG, MODEL_TAG, KIND_TAG = "rlft.cell", "rlft.model", "rlft.kind"


@dataclass(frozen=True, slots=True)
class CellResult:
    """What one model did at one cell; `facts` say what the model is, `model_id` is its logged model in MLflow."""

    cell: str
    model: str
    facts: Mapping[str, Any]
    model_id: str | None
    measures: CellMeasures
    tasks: TaskSet
    rollouts: Rollouts
    rewards: Rewards
    caveats: Mapping[str, float] = field(default_factory=dict)  # metrics that stand beside the scores


def open_evaluation(
    tracking_uri: str,
    experiment: str,
    root: str,
    name: str,
    missed: Path,
    artifacts: str | None,
    tags: Mapping[str, str],
    settings: Mapping[str, Any],
) -> Tracker:
    """Open the run of a call; `root` is ZenML's id of it, and `missed` the file for what MLflow does not take."""
    parent = Tracker(
        tracking_uri,
        experiment,
        root,
        name,
        artifact_location=artifacts,
        tags={**tags, KIND_TAG: "evaluation"},
        missed_path=missed,
    )
    parent.log_params({"name": settings["name"], "seed": settings["seed"], "metric": settings["metric"]})
    parent.log_json("suite.json", settings)
    return parent


def log_cell(
    parent: Tracker, result: CellResult, tags: Mapping[str, str], missed: Path, max_traces: int | None
) -> str | None:
    """Write one model at one cell as a run below `parent`; returns its id, `None` if MLflow does not answer."""
    if parent.run_id is None:
        return None
    own = {TYPE_TAG: TYPE, PARENT_TAG: parent.run_id, CELL_TAG: result.cell, MODEL_TAG: result.model}
    run = Tracker(
        parent.tracking_uri,
        parent.experiment,
        f"{parent.root_run}/{result.cell}/{result.model}",
        f"{result.cell} {result.model}",
        tags={**tags, **own, KIND_TAG: "evaluation"},
        missed_path=missed,
    )
    run.log_params({"cell": result.cell, "model": dict(result.facts)})
    used = TaskSet(_attempted(result), result.tasks.fingerprint, result.tasks.notes)
    run.log_tasks(used, str(result.tasks.notes.get("tasks", {}).get("source", "")))
    run.log_metrics({**cell_metrics(result.measures), **result.caveats}, step=0)
    run.log_json("measures.json", _slices(result.measures))
    if run.run_id is not None and run.experiment_id is not None and not run.is_away:
        _link_model(run.tracking_uri, run.run_id, result.model_id)
        log_attempts(
            run.tracking_uri,
            run.experiment_id,
            run.run_id,
            result.rollouts,
            result.rewards,
            used,
            model_id=result.model_id,
            tags={CELL_TAG: result.cell, MODEL_TAG: result.model},
            limit=max_traces,
        )
    run.finish()
    return run.run_id


def cell_metrics(measures: CellMeasures) -> dict[str, float]:
    """Return `eval/{split}/{metric}` with `_low` and `_high`, and those of slices below `eval/{split}/{column}/`."""
    found: dict[str, float] = {}
    for split, of_split in measures.splits.items():
        sliced = {
            f"{column}/{value}/": metrics
            for column, values in of_split.slices.items()
            for value, metrics in values.items()
        }
        for prefix, metrics in {"": of_split.metrics, **sliced}.items():
            for name, interval in metrics.items():
                place = f"eval/{split}/{prefix}{name}"
                found |= {place: interval.mean, f"{place}_low": interval.low, f"{place}_high": interval.high}
        found[f"eval/{split}/tasks"] = float(of_split.tasks)
        found[f"eval/{split}/attempts"] = float(of_split.attempts)
        found[f"eval/{split}/attempts_without_score"] = float(sum(of_split.errors.values()))
    return found | {f"totals/{name}": value for name, value in measures.totals.items()}


def _slices(measures: CellMeasures) -> dict[str, Any]:
    return {
        split: {"tasks": each.tasks, "attempts": each.attempts, "errors": each.errors, "slices": list(each.slices)}
        for split, each in measures.splits.items()
    }


def _attempted(result: CellResult) -> tuple[Any, ...]:
    tried = {rollout.task_id for rollout in result.rollouts}
    return tuple(task for task in result.tasks.tasks if task.id in tried)


def _link_model(tracking_uri: str, run_id: str, model_id: str | None) -> None:
    """Name the logged model as an input of the run, by which its page shows the evaluation."""
    if model_id is None:
        return
    try:
        with quick_http():
            check_reachable(tracking_uri)
            client = MlflowClient(tracking_uri=tracking_uri)
            client.log_inputs(run_id, models=[LoggedModelInput(model_id)])
    except Exception as cause:  # a link is a convenience
        reason = reason_of(cause, tracking_uri)
        logger.warning("the logged model was not linked to its evaluation: %s", reason)


EXPECTED = "expected_response"  # the name that MLflow's own scorers read
SOURCE_RUN, MODEL_ID = "mlflow.assessment.sourceRunId", "mlflow.modelId"


def log_attempts(
    tracking_uri: str,
    experiment_id: str,
    run_id: str,
    rollouts: Rollouts,
    rewards: Rewards,
    tasks: TaskSet,
    *,
    model_id: str | None,
    tags: Mapping[str, str],
    limit: int | None,
) -> int:
    """Store attempts as traces of an MLflow run; returns how many the run now has.

    Each trace is the conversation, with a feedback for the reward, `solved` and each part, and the task's answer as the
    expectation `expected_response`. It names the run, and the logged model if there is one. With a `limit` the attempts
    are spread from the worst to the best. What the run has already is not written again.
    A store that fails is warned of once and never raises.
    """
    by_id, scores = tasks.by_id(), {reward.rollout_id: reward for reward in rewards}
    wanted = list(rollouts) if limit is None else list(choose_rollouts(rollouts, rewards, limit))
    metadata = {MODEL_ID: model_id} if model_id else {}

    def trace(rollout: Rollout) -> MadeTrace:
        task, key = by_id.get(rollout.task_id), trace_key(run_id, rollout)
        found = reward_feedback(scores.get(rollout.rollout_id), rewards.weights, trace_id(key))
        found += expectations(task, trace_id(key))
        assessments = _of_run(found, run_id, trace_id(key), root_span_id(key))
        own = {**tags, **({"rlft.split": task.split} if task else {}), "rlft.sample": str(rollout.sample)}
        return trace_of(experiment_id, run_id, rollout, assessments, prompt_count(rollout, task), own, metadata)

    return store_rollouts(tracking_uri, experiment_id, run_id, wanted, trace)


def expectations(task: Task | None, trace: str) -> list[Assessment]:
    """Return the task's answer as an expectation; nothing where it has none."""
    if task is None or task.answer is None:
        return []
    return [Expectation(name=EXPECTED, value=task.answer, source=SOURCE, trace_id=trace)]


def _of_run(assessments: Sequence[Assessment], run_id: str, trace: str, span_id: str) -> list[Assessment]:
    """Say of each assessment which run made it and which span it is about: the root, as MLflow has it."""
    for each in assessments:
        each.metadata = {**(each.metadata or {}), SOURCE_RUN: run_id}
        each.trace_id, each.span_id = trace, span_id
    return list(assessments)
