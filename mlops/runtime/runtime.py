"""What stays warm from step to step in the pipeline's process: the live policies, the environment and the engine.

A step asks for the policy of a folder and gets the live one with that content, or loads it cold. Both have the same
bytes, so a step may run in a process of its own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from zenml.steps.step_context import StepContext, get_or_create_run_context, get_step_context

from mlops.runtime.environment import open_environment
from rlft.config import EngineSettings, EnvironmentConfig
from rlft.contract.base import BaseEnv
from rlft.engines.base import Engine
from rlft.engines.create import choose_engine, create_engine
from rlft.engines.transformers_engine import TransformersEngine
from rlft.policy import Policy, PolicyFolder, load_policy
from rlft.policy.origin import choose_device
from rlft.progress import Progress, silent
from rlft.secrets import hide_in_logs
from rlft.sft.checkpoint import Checkpoints
from rlft.sft.state import SftState
from rlft.temporary import folder_prefix, remove_left_behind

SCRATCH_VARIABLE = "RLFT_SCRATCH"
WARM_POLICIES = 2  # the one in training, and the reference or the one that is evaluated


@dataclass(frozen=True, slots=True)
class Lent:
    """What the pipeline's body lends to the steps of its process; a step in one of its own does without.

    `progress` is that of the stage which is going on, `checkpoints` a folder that lasts (what is in it from earlier
    does not count for a run that does all `anew`), and `note_training` is told the name of a supervised stage and how
    far it is, whenever that is safe on disk.
    """

    progress: Progress = silent
    checkpoints: Path | None = None
    anew: bool = False
    note_training: Callable[[str, SftState], None] | None = None


class Runtime:
    """Live policies by content hash, least recently used first, and a scratch folder for what steps write."""

    def __init__(self) -> None:
        self._policies: dict[str, Policy] = {}
        self._environments: dict[str, BaseEnv] = {}
        self._engines: dict[str, Engine] = {}
        self._scratch = _make_scratch()
        self._checkpoints: list[Checkpoints] = []
        self.lent = Lent()

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

    def checkpoints(self, stage: str, code: str) -> Checkpoints | None:
        """Where a supervised stage of this name and code keeps what it has, if there is a place that lasts."""
        lent = self.lent
        if lent.checkpoints is None:
            return None
        saved = None if lent.note_training is None else partial(lent.note_training, stage)
        made = Checkpoints(lent.checkpoints, code=code, anew=lent.anew, saved=saved)
        self._checkpoints.append(made)
        return made

    def forget_checkpoints(self) -> None:
        """The results of the stages that kept some are stored."""
        for checkpoints in self._checkpoints:
            checkpoints.remove()
        self._checkpoints.clear()

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


def shared_runtime() -> Runtime:
    """The runtime of the run that this process is going through, for the pipeline's body."""
    state = get_or_create_run_context().state
    assert isinstance(state, Runtime), "the pipeline has start_runtime as its init hook"
    return state


def current_runtime() -> Runtime:
    """The runtime of this process, or a new one for a step that runs outside a pipeline."""
    if StepContext.get() is not None:
        state = get_step_context().pipeline_state
        if isinstance(state, Runtime):
            return state
    return Runtime()


def pipeline_environment(settings: EnvironmentConfig) -> BaseEnv:
    """The environment of these settings for a pipeline's body: the one that steps in this process use too."""
    context = get_or_create_run_context()
    state = context.state if context.initialized else None
    return state.environment(settings) if isinstance(state, Runtime) else open_environment(settings)
