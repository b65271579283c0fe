"""The benchmark of diagnoses: a cause is named first of two broken runs, and none of a healthy one."""

import pytest

from benchmarks.diagnosis import measure

pytestmark = pytest.mark.slow


def test_causes_are_named_and_healthy_runs_are_not_accused():
    found = measure(["any answer is right", "an engine of its own"], [1], [101])
    assert (found["first"], found["broken"]) == (2, 2)
    assert (found["false"], found["healthy"]) == (0, 1)
