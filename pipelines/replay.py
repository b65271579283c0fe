"""What `rescore` and `retrain` share: how they begin, and what is said of the code and the tasks that they use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zenml.execution.pipeline.dynamic.run_context import DynamicPipelineRunContext
from zenml.models import PipelineRunResponse

from mlops.runs.finding import attempts_of
from mlops.runs.replayed import Source
from mlops.runs.resuming import HARNESS, REWARD, begun_with
from mlops.runtime.runtime import Lent, shared_runtime
from mlops.summary.replays import ReplaySummary
from mlops.tracking.run import Tracker
from pipelines.judges import Note
from rlft.bars import Display
from rlft.comparison import compare
from rlft.distributed.demand import Demand
from rlft.fingerprints.identity import EnvironmentFingerprints
from rlft.types import Evaluation, Judging


def begin_replay(demand: Demand | None = None) -> tuple[Display, PipelineRunResponse]:
    """Prepare the process of a replay, which asks so much of Ray; returns what shows its stages, and ZenML's run."""
    display = Display()
    shared_runtime().lent = Lent(progress=display.report, demand=demand)
    context = DynamicPipelineRunContext.get()
    assert context is not None, "this is called in the body of a pipeline"
    return display, context.run


def noting(summary: ReplaySummary, tracker: Tracker) -> Note:
    """Return what notes in the summary and in MLflow what judges said of their canaries."""

    def note(judging: Judging | None, said: list[dict[str, Any]]) -> None:
        summary.judges.pop("canaries", None)  # a sum that has grown
        summary.note_judging("canaries", judging)
        tracker.log_json("judge_canaries.json", said)

    return note


def changed_sides(source: Source, now: EnvironmentFingerprints) -> list[str]:
    """Return which sides of the environment's code, `harness` and `reward`, differ from those of the run."""
    then = begun_with(attempts_of(source.run.found))
    current = {HARNESS: now.harness, REWARD: now.reward}
    return [side for side, digest in current.items() if side in then and then[side] != digest]


def difference(ours: Evaluation | None, theirs: Evaluation | None, metric: str) -> dict[str, Any] | None:
    """Return `ours` minus `theirs` on `test` as JSON, errors counted against either end; `None` if it is unknown."""
    if ours is None or theirs is None or not all("test" in each.splits for each in (ours, theirs)):
        return None
    one, other = ours.splits["test"], theirs.splits["test"]
    if metric not in one.per_task or metric not in other.per_task:
        return None
    found = compare(one, other, metric)
    if found is None:
        return None
    ends = {"low": found.low_with_errors, "high": found.high_with_errors}
    return {"before": found.before, "after": found.after, "mean": found.difference.mean, **ends} | {
        "tasks": found.difference.count
    }


def means(evaluation: Evaluation) -> Mapping[str, dict[str, float]]:
    """Return the means of an evaluation, {split: {metric: mean}}."""
    return {
        split: {name: interval.mean for name, interval in report.metrics.items()}
        for split, report in evaluation.splits.items()
    }
