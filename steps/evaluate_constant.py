"""The step `evaluate_constant` measures what the best constant answer earns."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import current_runtime
from rlft.config import EnvironmentConfig, HarnessConfig, RewardConfig
from rlft.controls.constant import ConstantAnswer, best_constant
from rlft.types import Split, TaskSet


@step(cache_policy=cache_policies.CONSTANT, output_materializers=ReportMaterializer)
def evaluate_constant(
    tasks: TaskSet,
    said: list[str],
    environment: EnvironmentConfig,
    reward: RewardConfig,
    harness: HarnessConfig,
    fingerprints: str,
    metric: str,
    splits: list[Split],
) -> Annotated[ConstantAnswer, "constant_answer"]:
    """Choose a constant answer on validation, among them what policies say often, and evaluate it on `splits`."""
    del fingerprints  # of the reward's code and the tools', part of the cache key
    runtime = current_runtime()
    return best_constant(
        tasks,
        said,
        runtime.environment(environment),
        reward,
        harness,
        metric=metric,
        splits=splits,
        progress=runtime.lent.progress,
    )
