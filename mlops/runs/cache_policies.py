"""Cache policies of the steps: a cache key holds the code that a step calls, as ZenML sees only the step's own lines.

A fingerprint is computed once a process: code that was imported does not change when its file does.
"""

from __future__ import annotations

from functools import cache

from zenml.config.cache_policy import CachePolicy

from rlft.fingerprints.identity import code_fingerprint


@cache
def audit_code() -> str:
    """Return the fingerprint of the code behind `audit_rewards`."""
    return code_fingerprint("rlft.audit.by_settings")


@cache
def warm_start_code() -> str:
    """Return the fingerprint of the code behind `warm_start_policy`."""
    return code_fingerprint("rlft.sft.training")


@cache
def control_code() -> str:
    """Return the fingerprint of the code behind `train_sft_control`."""
    return code_fingerprint("rlft.controls.sft", "rlft.engines.create")


@cache
def rejection_code() -> str:
    """Return the fingerprint of the code behind `train_rejection_control`."""
    return code_fingerprint("rlft.controls.rejection", "rlft.engines.create")


@cache
def rollout_code() -> str:
    """Return the fingerprint of the code behind `generate_rollouts`."""
    return code_fingerprint("rlft.rollout", "rlft.engines.create")


@cache
def draw_code() -> str:
    """Return the fingerprint of the code behind `draw_tasks` and `note_pass_rates`."""
    return code_fingerprint("rlft.curriculum.draw")


@cache
def groups_code() -> str:
    """Return the fingerprint of the code behind `generate_groups`."""
    return code_fingerprint("rlft.curriculum.groups", "rlft.rollout", "rlft.engines.create", "rlft.rewards.by_settings")


@cache
def reward_code() -> str:
    """Return the fingerprint of the code behind `score_rewards`."""
    return code_fingerprint("rlft.rewards.by_settings")


@cache
def training_code() -> str:
    """Return the fingerprint of the code behind `train_grpo`, losses left out: the step is given that of its loss."""
    return code_fingerprint("rlft.training.trainer", "rlft.distributed.trainer_actor", "rlft.metrics")


@cache
def unused_code() -> str:
    """Return the fingerprint of the code behind `report_unused`."""
    return code_fingerprint("rlft.training.ledger")


@cache
def evaluation_code() -> str:
    """Return the fingerprint of the code behind `evaluate_policy` and `decide_promotion`."""
    return code_fingerprint("rlft.evaluation", "rlft.promotion")


@cache
def scenario_code() -> str:
    """Return the fingerprint of the code behind `evaluate_scenario`."""
    return code_fingerprint("rlft.suites.measures")


@cache
def prompt_code() -> str:
    """Return the fingerprint of the code behind `choose_prompt`."""
    return code_fingerprint("rlft.controls.few_shot", "rlft.engines.create")


@cache
def constant_code() -> str:
    """Return the fingerprint of the code behind `evaluate_constant`."""
    return code_fingerprint("rlft.controls.constant")


@cache
def contamination_code() -> str:
    """Return the fingerprint of the code behind `find_contamination`."""
    return code_fingerprint("rlft.contamination.overlap", "rlft.sft.overlap")


@cache
def forgetting_code() -> str:
    """Return the fingerprint of the code behind `measure_forgetting`."""
    return code_fingerprint("rlft.forgetting.bits")


@cache
def rescoring_code() -> str:
    """Return the fingerprint of the code behind `compare_rewards`."""
    return code_fingerprint("rlft.rewards.rescored")


def _policy(function: str) -> CachePolicy:
    """Make a cache policy of a function's name. Of the function itself ZenML would look up the source at the import."""
    return CachePolicy.model_validate({"cache_func": f"{__name__}.{function}"})


AUDIT = _policy("audit_code")
WARM_START = _policy("warm_start_code")
CONTROL = _policy("control_code")
REJECTION = _policy("rejection_code")
ROLLOUT = _policy("rollout_code")
DRAW = _policy("draw_code")
GROUPS = _policy("groups_code")
REWARD = _policy("reward_code")
TRAINING = _policy("training_code")
UNUSED = _policy("unused_code")
EVALUATION = _policy("evaluation_code")
SCENARIO = _policy("scenario_code")
CONSTANT = _policy("constant_code")
PROMPT = _policy("prompt_code")
CONTAMINATION = _policy("contamination_code")
RESCORING = _policy("rescoring_code")
FORGETTING = _policy("forgetting_code")
