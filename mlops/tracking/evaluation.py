"""The MLflow runs of an evaluation, in the shape of MLflow's own (`mlflow.genai.evaluate` of 3.17).

Each model at each cell is a run of type `genai_evaluate` with one trace an attempt, so that the page of evaluations
lists it, shows its conversations with their scores as a table, and puts two models side by side. The call is a run
above them, with the differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlops.tracking.run import Tracker
from mlops.tracking.traces import choose_rollouts, log_rollouts
from rlft.evaluation.suites import CellMeasures
from rlft.types import Rewards, Rollouts, TaskSet

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
    tried, notes = {rollout.task_id for rollout in result.rollouts}, result.tasks.notes
    used = TaskSet(tuple(task for task in result.tasks.tasks if task.id in tried), result.tasks.fingerprint, notes)
    run.log_tasks(used, str(notes.get("tasks", {}).get("source", "")))
    run.log_metrics(cell_metrics(result.measures), step=0)
    found = {
        split: {"tasks": each.tasks, "attempts": each.attempts, "errors": each.errors, "slices": list(each.slices)}
        for split, each in result.measures.splits.items()
    }
    run.log_json("measures.json", found)
    if result.model_id is not None:
        run.log_model(result.model_id)
    if run.run_id is not None and run.experiment_id is not None and not run.is_away:
        rollouts = result.rollouts
        log_rollouts(
            run.tracking_uri,
            run.experiment_id,
            run.run_id,
            rollouts if max_traces is None else choose_rollouts(rollouts, result.rewards, max_traces),
            result.rewards,
            used.by_id(),
            {CELL_TAG: result.cell, MODEL_TAG: result.model},
            model_id=result.model_id,
            with_answers=True,
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
