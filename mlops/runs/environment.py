"""Loads the environment of a config, and its code as hashes."""

from __future__ import annotations

from rlft.config import Config, EnvironmentConfig
from rlft.contract.base import BaseEnv
from rlft.contract.loading import load_environment
from rlft.contract.several import Several
from rlft.fingerprints.identity import environment_fingerprints
from rlft.training.chosen_loss import loss_fingerprint


def open_environment(settings: EnvironmentConfig) -> BaseEnv:
    """Load an environment, or several as one. Raises EnvironmentSetupError."""
    if members := settings.members():
        return Several({name: open_environment(member) for name, member in members.items()})
    return load_environment(settings.name, settings.kwargs)


def code_of_run(config: Config) -> dict[str, str]:
    """Return the fingerprints of the `harness`, the `reward` and the `loss` of a config, as its code is now.

    Raises EnvironmentSetupError.
    """
    environment = open_environment(config.environment)
    prints = environment_fingerprints(environment, config.environment.name, config.environment.kwargs)
    return {"harness": prints.harness, "reward": prints.reward, "loss": loss_fingerprint(config.training)}
