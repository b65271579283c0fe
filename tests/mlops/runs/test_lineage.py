"""What became of a run's model, by the summary of the run."""

from __future__ import annotations

import pytest

from mlops.runs.noting import outcome_of
from mlops.summary.summary import Promotion, Summary


@pytest.mark.parametrize(
    ("status", "version", "promoted", "outcome"),
    [
        ("improved", "3", True, "promoted"),
        ("improved", "3", False, "rejected"),
        ("not_improved", "3", False, "rejected"),
        ("failed", "3", False, "rejected"),  # registered, though nothing could be compared on `test`
        ("failed", None, False, "failed"),
        ("too_hard", None, False, "too_hard"),
        ("already_solved", None, False, "already_solved"),
        ("improved", None, False, "not_registered"),  # MLflow could not be reached
    ],
)
def test_the_outcome_of_a_run(status, version, promoted, outcome):
    summary = Summary(status=status, promotion=Promotion(version=version, promoted=promoted))
    assert outcome_of(summary) == outcome
