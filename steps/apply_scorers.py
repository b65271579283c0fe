"""The step `apply_scorers` lets scorers of MLflow score attempts."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import current_runtime
from mlops.tracking.scorers import load_scorers, score_attempts
from rlft.suites.scorers import ScorerScores
from rlft.types import Rollouts, TaskSet


@step(cache_policy=cache_policies.SCENARIO, output_materializers=ReportMaterializer)
def apply_scorers(
    tasks: TaskSet, rollouts: Rollouts, scorers: list[str], scorers_digest: str
) -> Annotated[ScorerScores, "scorer_scores"]:
    """Score every attempt with each scorer; an error is kept as an error, never a zero."""
    del scorers_digest  # of what the scorers do, part of the cache key
    return score_attempts(load_scorers(scorers), rollouts, tasks, current_runtime().lent.progress)
