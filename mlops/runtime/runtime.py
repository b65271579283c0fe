"""What stays in memory from step to step: live policies, the environment, the engine and the processes that train.

A step asks for the policy of a folder and gets the live one with that content, else one that is loaded from the folder.
Both have the same bytes, so a step may run in a process of its own.
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
from mlops.runtime.kept_warm import keep_warm
from mlops.runtime.live_policies import LivePolicies
from mlops.runtime.on_ray import OnRay
from mlops.runtime.signals import arm_pod, disarm_pod, listen
from mlops.runtime.taken_over import take_over
from rlft.config import EngineSettings, EnvironmentConfig
from rlft.config.specified import unscored
from rlft.contract.base import BaseEnv
from rlft.distributed.demand import Demand
from rlft.engines.base import Engine
from rlft.engines.chat_endpoint import AskedModel
from rlft.engines.create import choose_engine, create_engine
from rlft.engines.transformers_engine import TransformersEngine
from rlft.judges.servers import JudgeServers
from rlft.policy import PolicyFolder
from rlft.progress import Progress, silent
from rlft.rollout import AskedPlayer, Player, PolicyPlayer, SamplingSettings
from rlft.secrets import hide_in_logs
from rlft.sft.checkpoint import Checkpoints
from rlft.sft.state import SftState
from rlft.specification.judge import JudgeSettings
from rlft.temporary import folder_prefix, remove_left_behind

SCRATCH_VARIABLE = "RLFT_SCRATCH"


@dataclass(frozen=True, slots=True)
class Lent:
    """What the pipeline's body lends to the steps of its process; a step in a process of its own has these defaults.

    `progress` takes the reports of the stage that is open, `checkpoints` is a folder that outlasts the process (what is
    in it from earlier is not used if `anew`), and `note_training` is called with the name of a supervised stage and
    its state, whenever that is safe on disk. `demand` is what the whole run asks of Ray.
    """

    progress: Progress = silent
    checkpoints: Path | None = None
    anew: bool = False
    note_training: Callable[[str, SftState], None] | None = None
    demand: Demand | None = None


class Runtime:
    """Holds live policies, environments, engines, the process that uses Ray, and a scratch folder for policies."""

    def __init__(self) -> None:
        self.policies = LivePolicies()
        self._environments: dict[str, BaseEnv] = {}  # by settings, as JSON
        self._engines: dict[str, Engine] = {}
        self.judges = JudgeServers()
        self._scratch = _make_scratch()
        self.on_ray = OnRay(lambda: self.lent.demand, self._scratch)
        self._checkpoints: list[Checkpoints] = []
        self.lent = Lent()

    @property
    def training_progress(self) -> Progress:
        """What takes the reports of a training step."""
        return self.policies.training_progress or self.lent.progress

    def environment(self, settings: EnvironmentConfig) -> BaseEnv:
        """Return the environment of these settings, made once, with its judges answering.

        Raises EnvironmentSetupError, and what `JudgeServers.start` raises.
        """
        opened = self.unjudged(settings)
        self.judges.start_for(opened)
        return opened

    def unjudged(self, settings: EnvironmentConfig) -> BaseEnv:
        """Return the environment of these settings, made once, for what asks no judge. Raises EnvironmentSetupError."""
        key = settings.model_dump_json()
        if key not in self._environments:
            made = self._environments[key] = open_environment(settings)
            # What can score can be attempted in as well: it is not made twice.
            self._environments.setdefault(unscored(settings).model_dump_json(), made)
        return self._environments[key]

    def engine(self, settings: EngineSettings, batch_size: int, device_type: str) -> Engine:
        """Return the engine of these settings; one that has to be started is started once."""
        if choose_engine(settings.engine, device_type) == "transformers":
            return TransformersEngine(batch_size)  # samples with the live policy itself; there is nothing to keep
        key = f"{settings.model_dump_json()} {batch_size} {device_type}"
        if key not in self._engines:
            starter = self.on_ray.engines(settings, batch_size, device_type)
            self._engines[key] = create_engine(
                settings, batch_size=batch_size, device_type=device_type, starter=starter
            )
        return self._engines[key]

    def player(self, policy: PolicyFolder | AskedModel, sampling: SamplingSettings, device: str) -> Player:
        """Return what attempts tasks: the policy in its engine, or the model behind its address."""
        if isinstance(policy, AskedModel):
            return AskedPlayer(policy)
        live = self.policies.of(policy, device)
        engine = self.engine(sampling.engine, sampling.batch_size, live.device.type)
        engine.load_policy(live)
        self.policies.let_train(live, device)
        return PolicyPlayer(live, engine)

    def new_folder(self) -> Path:
        """Return a new path to save a policy to, and remove those of earlier steps, which are stored by now."""
        for old in self._scratch.iterdir():
            shutil.rmtree(old, ignore_errors=True)
        return Path(tempfile.mkdtemp(dir=self._scratch)) / "policy"

    def checkpoints(self, stage: str, code: str) -> Checkpoints | None:
        """Return the checkpoints of a supervised stage; `None` if no folder for them was lent.

        `stage` is the name that `note_training` is told, `code` the fingerprint of the code that trains.
        """
        lent = self.lent
        if lent.checkpoints is None:
            return None
        saved = None if lent.note_training is None else partial(lent.note_training, stage)
        made = Checkpoints(lent.checkpoints, code=code, anew=lent.anew, saved=saved)
        self._checkpoints.append(made)
        return made

    def forget_checkpoints(self) -> None:
        """Remove the checkpoints that were made here. Call once the results of their stages are stored."""
        for checkpoints in self._checkpoints:
            checkpoints.remove()
        self._checkpoints.clear()

    def close(self) -> None:
        """End the engines, the judges' servers and the trainers, and give back memory and the scratch folder."""
        self.judges.close()
        for engine in self._engines.values():
            engine.close()
        self._engines.clear()
        self.on_ray.close()
        self.policies.clear()
        shutil.rmtree(self._scratch, ignore_errors=True)


def _make_scratch() -> Path:
    """Make a folder for this process beside the artifacts, where hard links work; remove what killed processes left."""
    parent = Path(os.environ.get(SCRATCH_VARIABLE) or tempfile.gettempdir())
    parent.mkdir(parents=True, exist_ok=True)
    remove_left_behind("scratch", parent)
    return Path(tempfile.mkdtemp(prefix=folder_prefix("scratch"), dir=parent))


def start_runtime() -> Runtime:
    """Make the state that all steps of this process share; the pipeline's init hook."""
    # A remote run's process has no command line, which would do both.
    hide_in_logs()
    arm_pod()
    keep_warm()
    take_over()
    return Runtime()


def stop_runtime() -> None:
    """Close the shared state; the pipeline's cleanup hook."""
    state = get_or_create_run_context().state
    if isinstance(state, Runtime):
        state.close()
    disarm_pod()


def shared_runtime() -> Runtime:
    """Return the runtime of the run that goes on in this process, for the pipeline's body."""
    state = get_or_create_run_context().state
    assert isinstance(state, Runtime), "the pipeline has start_runtime as its init hook"
    return state


def current_runtime() -> Runtime:
    """Return the runtime of this process for a step; a new one for a step that runs outside a pipeline."""
    listen()
    if StepContext.get() is not None:
        state = get_step_context().pipeline_state
        if isinstance(state, Runtime):
            return state
    return Runtime()


def start_judge(settings: JudgeSettings) -> None:
    """Start the vLLM of a judge for the run that goes on in this process, if rlft starts it and none runs yet.

    Raises what `JudgeServers.start` raises.
    """
    context = get_or_create_run_context()
    if context.initialized and isinstance(context.state, Runtime):
        context.state.judges.start(settings)


def pipeline_environment(settings: EnvironmentConfig) -> BaseEnv:
    """Return the environment of these settings for a pipeline's body: the one that steps in this process use too.

    No vLLM is started for its judges (`pipelines.judges` does so).
    """
    context = get_or_create_run_context()
    state = context.state if context.initialized else None
    return state.unjudged(settings) if isinstance(state, Runtime) else open_environment(settings)
