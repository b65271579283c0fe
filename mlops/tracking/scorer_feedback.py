"""Turns what scorers said of attempts into the assessments of their traces."""

from __future__ import annotations

from mlflow.entities import Assessment, AssessmentError, Feedback

from mlops.tracking.traces import SOURCE
from rlft.suites.scorers import ScorerScores


def scorer_feedback(scores: ScorerScores | None) -> dict[str, list[Assessment]]:
    """Return the assessments of each attempt, by rollout id, without the trace that they are about."""
    found: dict[str, list[Assessment]] = {}
    if scores is None:
        return found
    for name, values in scores.values.items():
        for rollout, value in values.items():
            reason = scores.rationales.get(name, {}).get(rollout)
            said = Feedback(name=name, value=value, rationale=reason, source=SOURCE)
            found.setdefault(rollout, []).append(said)
    for name, errors in scores.errors.items():
        for rollout, error in errors.items():
            failed = AssessmentError(error_code="SCORER_ERROR", error_message=error)
            found.setdefault(rollout, []).append(Feedback(name=name, error=failed, source=SOURCE))
    return found
