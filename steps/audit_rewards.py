"""The step `audit_rewards` attacks the reward with wrong answers before any training."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import current_runtime
from rlft.audit.by_settings import audit_by
from rlft.audit.report import AuditReport
from rlft.config import EnvironmentConfig, HarnessConfig, RewardConfig
from rlft.types import TaskSet


@step(cache_policy=cache_policies.AUDIT, output_materializers=ReportMaterializer)
def audit_rewards(
    tasks: TaskSet,
    environment: EnvironmentConfig,
    reward: RewardConfig,
    harness: HarnessConfig,
    fingerprints: str,
    seed: int,
) -> Annotated[AuditReport, "reward_audit"]:
    """Score gold and attacks of many kinds; the pipeline stops if one of them is paid like gold."""
    del fingerprints  # of the reward's code and the tools', part of the cache key
    runtime = current_runtime()
    return audit_by(
        reward,
        tasks.split("train"),
        runtime.environment(environment),
        harness=harness,
        seed=seed,
        progress=runtime.lent.progress,
    )
