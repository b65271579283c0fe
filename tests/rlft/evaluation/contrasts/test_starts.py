"""Runs that score higher because they started higher."""

from __future__ import annotations

import numpy as np
import pytest

from rlft.evaluation.comparison import compare
from rlft.evaluation.contrasts import better_starts
from rlft.types import EvaluationReport


def report(scores):
    per_task = {"accuracy": {f"t{number:02d}": float(score) for number, score in enumerate(scores)}}
    return EvaluationReport("test", "p", 1, {}, per_task)


def found(**runs):
    """The better starts of runs, each of them the scores of each task before training and after."""
    starts = {name: report(before) for name, (before, _) in runs.items()}
    gains = {name: compare(report(after), report(before), "accuracy") for name, (before, after) in runs.items()}
    return better_starts(gains, starts, "accuracy")


def solved(before: int, after: int, tasks: int = 40):
    return [[number < count for number in range(tasks)] for count in (before, after)]


def test_a_run_that_scores_higher_and_gained_less_had_a_better_start():
    # a: 24 to 30 (+6), b: 6 to 28 (+22), c: 8 to 32 (+24), d: 24 to 30 like a.
    runs = {"a": solved(24, 30), "b": solved(6, 28), "c": solved(8, 32), "d": solved(24, 30)}
    assert found(**runs) == [("a", "b"), ("d", "b")]  # c scores highest and gained most
    assert found(a=solved(0, 10), b=solved(0, 20)) == []
    assert found() == []
    # 10 of 40 tasks before training, and 8: a difference of 2 that chance makes. (The interval reaches from below 0.)
    assert found(a=solved(10, 30), b=solved(8, 29)) == []


@pytest.mark.slow
def test_of_runs_that_are_alike_none_had_a_better_start():
    # Six runs, all of which begin at 1/3 and end at 1/2: by the means alone some pair is said to differ nearly always.
    random, said = np.random.default_rng(2), 0
    for _ in range(40):
        runs = {name: (random.random(100) < 1 / 3, random.random(100) < 1 / 2) for name in "abcdef"}
        said += bool(found(**runs))
    assert said <= 6  # 40 at 0.05 are 2, with a standard error of 1.4: three of them more
