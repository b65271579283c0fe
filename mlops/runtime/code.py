"""Cache keys of thin steps: the code they call, since ZenML sees only the step's own lines.

Read once a process: what is imported does not change when a file does.
"""

from __future__ import annotations

from functools import cache

from zenml.config.cache_policy import CachePolicy

from rlft.fingerprints.identity import code_fingerprint


@cache
def audit_code() -> str:
    """Code behind `audit_rewards`."""
    return code_fingerprint("rlft.audit.rewards")


@cache
def warm_start_code() -> str:
    """Code behind `warm_start_policy`, which is the warm start and the SFT control."""
    return code_fingerprint("rlft.sft.training")


@cache
def rollout_code() -> str:
    """Code behind `generate_rollouts`."""
    return code_fingerprint("rlft.rollout", "rlft.engines.create")


@cache
def reward_code() -> str:
    """Code behind `score_rewards`."""
    return code_fingerprint("rlft.rewards.scoring")


@cache
def training_code() -> str:
    """Code behind `train_grpo`, but for the losses: it is told the fingerprint of its own."""
    return code_fingerprint("rlft.training.trainer", "rlft.metrics")


@cache
def evaluation_code() -> str:
    """Code behind `evaluate_policy` and `decide_promotion`."""
    return code_fingerprint("rlft.evaluation", "rlft.promotion")


def _policy(function: str) -> CachePolicy:
    """By name: ZenML would look for the source root as soon as this module is imported otherwise."""
    return CachePolicy.model_validate({"cache_func": f"{__name__}.{function}"})


AUDIT = _policy("audit_code")
WARM_START = _policy("warm_start_code")
ROLLOUT = _policy("rollout_code")
REWARD = _policy("reward_code")
TRAINING = _policy("training_code")
EVALUATION = _policy("evaluation_code")
