"""Runs that score higher because they started higher."""

from __future__ import annotations

from rlft.comparison import compare
from rlft.contrasts import better_starts
from rlft.types import EvaluationReport


def gain(before: int, after: int, tasks: int = 40):
    """The gain of a run that solved so many tasks before training and after."""

    def report(solved):
        scores = {f"t{number:02d}": float(number < solved) for number in range(tasks)}
        return EvaluationReport("test", "p", 1, {}, {"accuracy": scores})

    found = compare(report(after), report(before), "accuracy")
    assert found is not None
    return found


def test_a_run_that_scores_higher_and_gained_less_had_a_better_start():
    # a: 20 to 30 (+10), b: 8 to 28 (+20), c: 10 to 32 (+22), d: 20 to 30 like a.
    gains = {"a": gain(20, 30), "b": gain(8, 28), "c": gain(10, 32), "d": gain(20, 30)}
    assert better_starts(gains) == [("a", "b"), ("d", "b")]  # c scores highest and gained most
    assert better_starts({"a": gain(0, 10), "b": gain(0, 20)}) == []
    assert better_starts({}) == []
