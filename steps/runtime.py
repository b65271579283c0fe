"""What stays warm from step to step in the pipeline's process: the live policies, the environment and the engine.

A step asks for the policy of a folder and gets the live one with that content, or loads it cold. Both have the same
bytes, so a step may run in a process of its own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from zenml.steps.step_context import StepContext, get_or_create_run_context, get_step_context

from rlft.config import EngineSettings, EnvironmentConfig
from rlft.engines.base import Engine
from rlft.engines.create import choose_engine, create_engine
from rlft.engines.transformers_engine import TransformersEngine
from rlft.environments.base import BaseEnv
from rlft.policy import Policy, PolicyFolder, load_policy
from rlft.policy.origin import choose_device
from rlft.secrets import hide_in_logs
from rlft.temporary import folder_prefix, remove_left_behind
from steps.environment import open_environment

SCRATCH_VARIABLE = "RLFT_SCRATCH"
WARM_POLICIES = 2  # the one in training, and the reference or the one that is evaluated


class Runtime:
    """Live policies by content hash, least recently used first, and a scratch folder for what steps write."""

    def __init__(self) -> None:
        self._policies: dict[str, Policy] = {}
        self._environments: dict[str, BaseEnv] = {}
        self._engines: dict[str, Engine] = {}
        self._scratch = _make_scratch()

    def policy(self, folder: PolicyFolder, device: str) -> Policy:
        """The live policy with the content of `folder`; it must not be changed."""
        policy = self.borrow(folder, device)
        self.keep(policy)
        return policy

    def borrow(self, folder: PolicyFolder, device: str) -> Policy:
        """Like `policy`, for a step that changes it: it is forgotten here until `keep` brings it back."""
        return self._policies.pop(folder.metadata.content_hash, None) or load_policy(folder, choose_device(device))

    def keep(self, policy: Policy) -> None:
        """Keep a policy, in the state that was last saved, for later steps."""
        self._policies[policy.metadata.content_hash] = policy
        while len(self._policies) > WARM_POLICIES:
            self._policies.pop(next(iter(self._policies)))

    def environment(self, settings: EnvironmentConfig) -> BaseEnv:
        """The environment of these settings, made once."""
        key = settings.model_dump_json()
        if key not in self._environments:
            self._environments[key] = open_environment(settings)
        return self._environments[key]

    def engine(self, settings: EngineSettings, batch_size: int, device_type: str) -> Engine:
        """The engine of these settings: one that has to be started is started once."""
        if choose_engine(settings.engine, device_type) == "transformers":
            return TransformersEngine(batch_size)  # samples with the live policy itself; there is nothing to keep
        key = f"{settings.model_dump_json()} {batch_size} {device_type}"
        if key not in self._engines:
            self._engines[key] = create_engine(settings, batch_size=batch_size, device_type=device_type)
        return self._engines[key]

    def new_folder(self) -> Path:
        """A path for a policy to be saved to. The folders of earlier steps have been stored by then and go."""
        for old in self._scratch.iterdir():
            shutil.rmtree(old, ignore_errors=True)
        return Path(tempfile.mkdtemp(dir=self._scratch)) / "policy"

    def close(self) -> None:
        """Give back memory and disk."""
        for engine in self._engines.values():
            engine.close()
        self._engines.clear()
        self._policies.clear()
        shutil.rmtree(self._scratch, ignore_errors=True)


def _make_scratch() -> Path:
    """A folder for this process beside the artifacts, where links to it work; what killed processes left there goes."""
    parent = Path(os.environ.get(SCRATCH_VARIABLE) or tempfile.gettempdir())
    parent.mkdir(parents=True, exist_ok=True)
    remove_left_behind("scratch", parent)
    return Path(tempfile.mkdtemp(prefix=folder_prefix("scratch"), dir=parent))


def start_runtime() -> Runtime:
    """The pipeline's init hook: what it returns is the state that all steps of this process share."""
    hide_in_logs()  # a remote run's process has no command line
    return Runtime()


def stop_runtime() -> None:
    """The pipeline's cleanup hook."""
    state = get_or_create_run_context().state
    if isinstance(state, Runtime):
        state.close()


def current_runtime() -> Runtime:
    """The runtime of this process, or a new one for a step that runs outside a pipeline."""
    if StepContext.get() is not None:
        state = get_step_context().pipeline_state
        if isinstance(state, Runtime):
            return state
    return Runtime()
