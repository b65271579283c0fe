"""Rounds and validations as monitors see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlft.evaluation.diagnosis.history import History
from rlft.evaluation.statistics import mean_interval
from rlft.types import EvaluationReport, TrainReport

GROUPS, SIZE = 40, 8


def rounds(**curves: Any) -> list[TrainReport]:
    """Rounds of 40 groups of 8 whose metrics are these curves; `__` stands for a slash."""
    fates = {str(place): "trained" for place in range(GROUPS * SIZE)}
    named = {name.replace("__", "/"): curve for name, curve in curves.items()}
    return [
        TrainReport(number, dict(zip(named, values, strict=True)), fates, 1, 1.0)
        for number, values in enumerate(zip(*named.values(), strict=True))
    ]


def validated(tasks: int = 100, **solved: int) -> EvaluationReport:
    """A validation in which each metric is 1 at so many of the tasks, and 0 at the others; `__` stands for a slash."""
    scores = {
        name.replace("__", "/"): {f"t{place:03d}": float(place < count) for place in range(tasks)}
        for name, count in solved.items()
    }
    ranges = dict.fromkeys(scores, (0.0, 1.0))
    means = {name: mean_interval(each) for name, each in scores.items() if each}
    return EvaluationReport("validation", "p", 1, means, scores, ranges=ranges, answers=9, right_answers=9)


def history(
    reports: Sequence[TrainReport], validations: Mapping[int, EvaluationReport] | None = None, **more: Any
) -> History:
    """The history of a run whose honest part is `right`."""
    given: dict[str, Any] = {"honest": "right"} | more
    return History(reports, validations or {}, "accuracy", 1000, SIZE, 1e-6, 256, **given)
