"""The step `score_rewards` scores attempts."""

from typing import Annotated

from zenml import step

from materializers.tables import RewardsMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import current_runtime, tag_round
from rlft.config import EnvironmentConfig, RewardConfig
from rlft.rewards.by_settings import score_by as score_rollouts
from rlft.types import Rewards, Rollouts, TaskSet


@step(cache_policy=cache_policies.REWARD, output_materializers=RewardsMaterializer)
def score_rewards(
    tasks: TaskSet,
    rollouts: Rollouts,
    environment: EnvironmentConfig,
    reward: RewardConfig,
    reward_fingerprint: str,
    known: Rewards | None = None,
) -> Annotated[Rewards, "rewards"]:
    """Score every rollout with the environment's reward; an error is kept as an error, never a zero.

    `known` are the rewards where these rollouts were scored while they were sampled (`generate_groups`).
    """
    del reward_fingerprint  # part of the cache key
    tag_round("rewards")
    if known is not None:
        return known
    runtime = current_runtime()
    opened = runtime.environment(environment)
    return score_rollouts(reward, rollouts, tasks.by_id(), opened, progress=runtime.lent.progress)
