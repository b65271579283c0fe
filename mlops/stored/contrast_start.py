"""Where the training of a run started, and how the run ended, for runs that are put side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlops.home.folder import Home
from mlops.ids import EVALUATION, RETRAIN
from mlops.stored.rollouts import stored_output
from mlops.stored.summaries import stored_summary
from mlops.summary.file import read_summary
from mlops.summary.replays import read_replay
from rlft.errors import RlftError
from rlft.types import EvaluationReport, Split

_STARTS = ("warm_start", "base")  # evaluations of what training started from; without a warm start the base model's


def start_report(run: Any, replay: Mapping[str, Any], split: Split) -> EvaluationReport | None:
    """Return the evaluation of the policy that training started from; `None` if it was not evaluated on the split.

    `replay` is what a replay is made of. A retraining has started where the run has that it is made of, if it began
    with round 0; policies between rounds are evaluated on `validation` alone. Raises DamagedError.
    """
    from mlops.runs.finding import find_run

    if replay.get("kind") == RETRAIN:
        if replay.get("from_round") != 0:
            return None
        try:
            run = find_run(str(replay.get("of")))
        except RlftError:  # it was deleted
            return None
    for name in _STARTS:
        if (evaluation := stored_output(run, EVALUATION, name)) is not None:
            return evaluation.splits.get(split)
    return None


def status_of(home: Home, run: Any) -> str:
    """Return the status in the summary of the newest attempt at a run that has one; `unknown` if none has.

    A run on a stack may have it in MLflow alone, where another home has begun it.

    Raises FormatVersionError.
    """
    from mlops.runs.finding import attempts_of

    for attempt in attempts_of(run):
        if (summary := read_summary(home, str(attempt.id))) is not None:
            return summary.status
        if (replay := read_replay(home, str(attempt.id))) is not None:
            return str(replay.get("status") or "unknown")
    told = stored_summary(home, run)
    return told.status if told else "unknown"
