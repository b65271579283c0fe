"""The environment of a config, with what the active stack has for it."""

from __future__ import annotations

from rlft.config import EnvironmentConfig
from rlft.environments.base import BaseEnv
from rlft.environments.loading import load_environment


def open_environment(settings: EnvironmentConfig) -> BaseEnv:
    """Load it; `sandbox: stack` among its arguments becomes the sandbox of the active stack.

    Raises EnvironmentSetupError.
    """
    kwargs = settings.kwargs
    if kwargs.get("sandbox") == "stack":
        from steps.stack_sandbox import stack_sandbox

        kwargs = {**kwargs, "sandbox": stack_sandbox()}
    return load_environment(settings.name, kwargs)
