"""The benchmark of diagnoses: a cause is named first of three broken runs, and none of two healthy ones."""

from benchmarks.diagnosis import measure


def test_causes_are_named_and_healthy_runs_are_not_accused():
    found = measure(["a tiny learning rate", "any answer is right", "an engine of its own"], [1], [101, 102])
    assert (found["first"], found["broken"]) == (3, 3)
    assert (found["false"], found["healthy"]) == (0, 2)
