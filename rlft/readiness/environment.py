"""Checks that the environment can be built, and that its reward has the parts that the config gives weights for."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from rlft.config import EnvironmentConfig, RewardConfig
from rlft.contract.base import BaseEnv
from rlft.contract.loading import load_environment
from rlft.contract.marks import marked_weights
from rlft.errors import ConfigError, EnvironmentSetupError
from rlft.rewards.rubric import UNNAMED


def check_environment(settings: EnvironmentConfig, reward: RewardConfig) -> None:
    """Import and build the environment. Raises EnvironmentSetupError and ConfigError as `load_environment` does.

    Where the parts of its reward are all marked methods, a weight for another part is a ConfigError too: other rewards
    name their parts only when they score. Raises EnvironmentSetupError for the sandbox `stack`, which needs a stack.
    """
    if settings.kwargs.get("sandbox") == "stack":
        raise EnvironmentSetupError(
            "`stack` is the sandbox of a ZenML stack, and this run has none",
            where="environment.kwargs.sandbox",
            fix="name a stack with --stack, or set it to auto",
        )
    environment = load_environment(settings.name, settings.kwargs)
    if type(environment).compute_reward is BaseEnv.compute_reward:
        _check_weights(reward.weights, list(marked_weights(environment)))


def _check_weights(weights: Mapping[str, float], parts: list[str]) -> None:
    for name in weights:
        if name not in parts and name != UNNAMED:
            near = get_close_matches(name, parts, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ConfigError(
                f"the environment's reward has no part {name!r}",
                where="reward.weights",
                fix=f"{hint}The parts are: {', '.join(parts)}",
            )
