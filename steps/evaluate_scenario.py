"""The step `evaluate_scenario` measures a model's attempts at a scenario of a suite."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from rlft.flops import ROLLOUT_FLOPS
from rlft.suites.measures import CellMeasures, evaluate_cell
from rlft.types import Evaluation, Rewards, Rollouts, TaskSet


@step(
    cache_policy=cache_policies.SCENARIO,
    output_materializers={"evaluation": ReportMaterializer, "measures": ReportMaterializer},
)
def evaluate_scenario(
    tasks: TaskSet, rollouts: Rollouts, rewards: Rewards, slices: list[str]
) -> tuple[Annotated[Evaluation, "evaluation"], Annotated[CellMeasures, "measures"]]:
    """Compute all metrics with intervals, in all and by slice, and the per-task scores for paired comparisons."""
    evaluation, measures = evaluate_cell(rollouts, rewards, tasks, slices, rollouts.metrics.get(ROLLOUT_FLOPS))
    return evaluation, measures  # ZenML counts outputs by what stands here
