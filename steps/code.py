"""Cache keys of thin steps: the code they call, since ZenML sees only the step's own lines."""

from __future__ import annotations

from zenml.config.cache_policy import CachePolicy

from rlft.fingerprint import code_fingerprint


def audit_code() -> str:
    """Code behind `audit_rewards`."""
    return code_fingerprint("rlft.rewards.audit")


def policy_code() -> str:
    """Code behind `initialize_policy`."""
    return code_fingerprint("rlft.policy.create")


def warm_start_code() -> str:
    """Code behind `warm_start_policy` and `train_sft_control`."""
    return code_fingerprint("rlft.training.demonstrations")


def rollout_code() -> str:
    """Code behind `generate_rollouts`."""
    return code_fingerprint("rlft.rollout", "rlft.engines.transformers_engine")


def reward_code() -> str:
    """Code behind `score_rewards`."""
    return code_fingerprint("rlft.rewards.scoring")


def training_code() -> str:
    """Code behind `train_grpo`."""
    return code_fingerprint("rlft.training.trainer", "rlft.metrics")


def evaluation_code() -> str:
    """Code behind `evaluate_policy` and `decide_promotion`."""
    return code_fingerprint("rlft.evaluation", "rlft.promotion")


AUDIT = CachePolicy(cache_func=audit_code)  # type: ignore[reportArgumentType]
POLICY = CachePolicy(cache_func=policy_code)  # type: ignore[reportArgumentType]
WARM_START = CachePolicy(cache_func=warm_start_code)  # type: ignore[reportArgumentType]
ROLLOUT = CachePolicy(cache_func=rollout_code)  # type: ignore[reportArgumentType]
REWARD = CachePolicy(cache_func=reward_code)  # type: ignore[reportArgumentType]
TRAINING = CachePolicy(cache_func=training_code)  # type: ignore[reportArgumentType]
EVALUATION = CachePolicy(cache_func=evaluation_code)  # type: ignore[reportArgumentType]
