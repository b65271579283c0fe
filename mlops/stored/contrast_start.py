"""Where the training of a run started, for runs that are put side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlops.ids import EVALUATION, RETRAIN
from mlops.stored.rollouts import Run
from rlft.errors import RlftError
from rlft.types import EvaluationReport, Split

_STARTS = ("warm_start", "base")  # evaluations of what training started from; without a warm start the base model's


def start_report(run: Run, replay: Mapping[str, Any], split: Split) -> EvaluationReport | None:
    """Return the evaluation of the policy that training started from; `None` if it was not evaluated on the split.

    `replay` is what a replay is made of. A retraining has started where the run has that it is made of, if it began
    with round 0; policies between rounds are evaluated on `validation` alone. Raises DamagedError.
    """
    if replay.get("kind") == RETRAIN:
        if replay.get("from_round") != 0:
            return None
        try:
            run = run.sibling(str(replay.get("of")))
        except RlftError:  # it was deleted
            return None
    for name in _STARTS:
        if (evaluation := run.output(EVALUATION, name)) is not None:
            return evaluation.splits.get(split)
    return None
