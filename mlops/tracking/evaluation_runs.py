"""The MLflow runs of an evaluation, in the shape of MLflow's own (`mlflow.genai.evaluate` of 3.17).

Each model at each cell is a run of type `genai_evaluate` with one trace an attempt, so that the page of evaluations
lists it, shows its conversations with their scores as a table, and puts two models side by side. The call is a run
above them, with the differences.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import LoggedModelInput

from mlops.tracking.evaluation_traces import log_attempts
from mlops.tracking.reach import check_reachable, quick_http
from mlops.tracking.run import Tracker
from mlops.tracking.scorer_feedback import scorer_feedback
from mlops.tracking.values import reason_of
from rlft.outcome import as_text
from rlft.suites.measures import CellMeasures
from rlft.suites.scorers import ScorerScores
from rlft.types import Rewards, Rollouts, TaskSet

logger = logging.getLogger(__name__)

TYPE_TAG, TYPE = "mlflow.runType", "genai_evaluate"
PARENT_TAG = "mlflow.parentRunId"
CELL_TAG, MODEL_TAG, KIND_TAG = "rlft.cell", "rlft.model", "rlft.kind"
_TABLE = "attempts.json"


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
    scores: ScorerScores | None = None
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
    parent = Tracker.open(
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
    run = Tracker.open(
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
    run.log_json(_TABLE, attempts_table(result))
    run.set_tags({"mlflow.loggedArtifacts": json.dumps([{"path": _TABLE, "type": "table"}])})
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
            more=scorer_feedback(result.scores),
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
        found |= {f"eval/{split}/scorers/{name}/errors": float(n) for name, n in of_split.scorer_errors.items()}
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


def attempts_table(result: CellResult) -> dict[str, Any]:
    """Return a row for each attempt, in the form in which MLflow shows a table."""
    by_id = result.tasks.by_id()
    parts = sorted({part for reward in result.rewards for part in reward.parts})
    columns = ["task", "sample", "split", "request", "response", "expected", "reward", "solved", *parts, "turns"]
    columns += ["tool_calls", "tool_errors", "stop_reason", "error"]
    data = []
    for rollout, reward in zip(result.rollouts, result.rewards, strict=True):
        task = by_id[rollout.task_id]
        scored = [reward.total, reward.solved if reward.total is not None else None]
        said = rollout.messages[-1]["content"] if rollout.messages else ""
        data.append(
            [task.id, rollout.sample, task.split, task.text, said, task.answer, *scored]
            + [reward.parts.get(part) for part in parts]
            + [rollout.turns, rollout.tool_calls, rollout.tool_errors, rollout.stop_reason]
            + [as_text(rollout.error or reward.error)]
        )
    return {"columns": columns, "data": data}


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
