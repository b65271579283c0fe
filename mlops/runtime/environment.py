"""Loads the environment of a config, with the sandbox of the active stack if it asks for that."""

from __future__ import annotations

from rlft.config import EnvironmentConfig
from rlft.contract.base import BaseEnv
from rlft.contract.loading import load_environment


def open_environment(settings: EnvironmentConfig) -> BaseEnv:
    """Load an environment; `sandbox: stack` among its arguments becomes the sandbox of the active stack.

    Raises EnvironmentSetupError.
    """
    kwargs = settings.kwargs
    if kwargs.get("sandbox") == "stack":
        from mlops.stacks.sandbox import stack_sandbox

        kwargs = {**kwargs, "sandbox": stack_sandbox()}
    return load_environment(settings.name, kwargs)
