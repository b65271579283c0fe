"""Checks that the environment can be built, and that its reward has the parts that the config gives weights for."""

from __future__ import annotations

from pathlib import Path

from rlft.config import EnvironmentConfig, RewardConfig
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.loading import load_environment
from rlft.environments.contract.marks import marked_steps, marked_weights
from rlft.errors import EnvironmentSetupError, RlftError
from rlft.rewards.rubric import check_weighed
from rlft.sandbox.bubblewrap import is_shown


def check_environment(settings: EnvironmentConfig, reward: RewardConfig) -> None:
    """Import and build the environment. Raises EnvironmentSetupError and ConfigError as `load_environment` does.

    Where the parts of its reward are all marked methods, a weight for another part is a ConfigError too: other rewards
    name their parts only when they score. All members of several environments are checked.
    """
    if members := settings.members():
        for name, member in members.items():
            try:
                check_environment(member, reward.of_member(name))
            except RlftError as error:
                error.where = f"environments.{name}: {error.where}"
                raise
        return
    environment = load_environment(settings.name, settings.kwargs)
    if type(environment).compute_reward is BaseEnv.compute_reward:
        parts = [*marked_weights(environment), *marked_steps(environment)]
        check_weighed(reward.weights, parts, "the environment's reward has no part")


def check_unseen(path: Path, where: str) -> None:
    """Raise EnvironmentSetupError for a path that a model's programs could read in the sandbox: it may hold tests."""
    if is_shown(path):
        raise EnvironmentSetupError(
            f"{path.absolute()} lies in a folder of the system or Python that the sandbox shows to a model's programs",
            where=where,
            fix="move it elsewhere",
        )
