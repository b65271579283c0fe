"""Cache policies of the steps: a cache key holds the code that a step calls, as ZenML sees only the step's own lines.

ZenML calls the functions by their names: they are in this module, beside the policies. What a step is given the
fingerprint of as a parameter is left out, such as the loss.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from zenml.config.cache_policy import CachePolicy

from rlft.environments.fingerprints import code_fingerprint
from rlft.files import RLFT_FOLDER


def _code(*modules: str) -> Callable[[], str]:
    """Return what computes the fingerprint of modules once a process: imported code stays when its file changes."""
    return cache(lambda: code_fingerprint(*modules))


def _policy(function: str) -> CachePolicy:
    """Make a cache policy of a function's name. Of the function itself ZenML would look up the source at the import."""
    return CachePolicy.model_validate({"cache_func": f"{__name__}.{function}"})


# Attacks, engines and arms are found by their place, which no import says.
_attacks = (f"rlft.rewards.audit.attacks.{file.stem}" for file in RLFT_FOLDER.glob("rewards/audit/attacks/*.py"))
_arms = [f"rlft.evaluation.arms.{file.stem}" for file in RLFT_FOLDER.glob("evaluation/arms/[a-z]*.py")]
_engines = [f"rlft.engines.kinds.{file.stem}" for file in RLFT_FOLDER.glob("engines/kinds/[a-z]*.py")]
audit_code = _code("rlft.rewards.audit.rewards", *_attacks)
warm_start_code = _code("rlft.training.imitation")
rollout_code = _code("rlft.tasks.curriculum", "rlft.harness.rollout", "rlft.harness.asked", *_engines)
draw_code = _code("rlft.tasks.curriculum")
groups_code = _code("rlft.training.groups", "rlft.harness.rollout", *_engines, "rlft.rewards.scoring")
reward_code = _code("rlft.rewards.scoring")
training_code = _code("rlft.training.trainer", "rlft.training.distributed.trainer_actor", "rlft.evaluation.metrics")
unused_code = _code("rlft.training.job")
evaluation_code = _code("rlft.evaluation.evaluate", "rlft.evaluation.promotion")
scenario_code = _code("rlft.evaluation.suites")
arm_code = _code(*_arms, *_engines)
constant_code = _code("rlft.evaluation.searches.constant")
contamination_code = _code("rlft.tasks.contamination", "rlft.training.demonstration_file")
forgetting_code = _code("rlft.evaluation.forgetting")
rescoring_code = _code("rlft.rewards.rescored")

AUDIT = _policy("audit_code")
WARM_START = _policy("warm_start_code")
ROLLOUT = _policy("rollout_code")
DRAW = _policy("draw_code")
GROUPS = _policy("groups_code")
REWARD = _policy("reward_code")
TRAINING = _policy("training_code")
UNUSED = _policy("unused_code")
EVALUATION = _policy("evaluation_code")
SCENARIO = _policy("scenario_code")
CONSTANT = _policy("constant_code")
ARM = _policy("arm_code")
CONTAMINATION = _policy("contamination_code")
RESCORING = _policy("rescoring_code")
FORGETTING = _policy("forgetting_code")
