"""The step `generate_groups` samples and scores the groups of a drawn round, and replaces those without variance."""

from functools import partial
from typing import Annotated

from zenml import step

from materializers.tables import RewardsMaterializer, RolloutsMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import current_runtime, tag_round
from rlft.config import EnvironmentConfig, RewardConfig
from rlft.curriculum.draw import Draw
from rlft.curriculum.groups import Groups, sample_groups
from rlft.policy import PolicyFolder
from rlft.rewards.by_settings import score_by
from rlft.rollout import SamplingSettings, collect_rollouts
from rlft.types import Rewards, Rollouts, TaskSet


@step(
    cache_policy=cache_policies.GROUPS,
    output_materializers={"rollouts": RolloutsMaterializer, "rewards": RewardsMaterializer},
)
def generate_groups(
    tasks: TaskSet,
    policy: PolicyFolder,
    draw: Draw,
    groups: Groups,
    sampling: SamplingSettings,
    environment: EnvironmentConfig,
    environment_fingerprint: str,
    reward: RewardConfig,
    reward_fingerprint: str,
    device: str,
) -> tuple[Annotated[Rollouts, "rollouts"], Annotated[Rewards, "rewards"]]:
    """Sample attempts at drawn tasks, and at others in place of those whose attempts were all scored alike."""
    del reward_fingerprint  # part of the cache key: which tasks are sampled depends on the rewards
    tag_round("rollouts", "rewards")
    runtime, by_id = current_runtime(), tasks.by_id()
    runtime.lent.progress(0, None, "loading the policy into the engine")
    known = {"environment": runtime.environment(environment), "progress": runtime.lent.progress}
    asked = {"num_generations": groups.num_generations, "round": draw.round, "seed": sampling.seed, "label": "train"}
    told = {"environment_fingerprint": environment_fingerprint, "harness": sampling.harness, **asked, **known}
    player = runtime.player(policy, sampling, device)
    sample = partial(collect_rollouts, player=player, sampling=sampling.of_tokens, **told)
    score = partial(score_by, reward, tasks=by_id, **known)
    sampled = sample_groups(draw, by_id, sample, score, batches=groups.max_num_gen_batches)
    return sampled.rollouts, sampled.rewards
