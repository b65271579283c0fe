"""What stays in memory from step to step: live policies, the environment, the engine and the processes that train.

A step asks for the policy of a folder and gets the live one with that content, else one that is loaded from the folder.
Both have the same bytes, so a step may run in a process of its own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from zenml.execution.pipeline.dynamic.run_context import DynamicPipelineRunContext
from zenml.models import ArtifactVersionResponse, PipelineRunResponse
from zenml.steps.step_context import StepContext, get_or_create_run_context, get_step_context

from mlops.ids import round_of
from mlops.runs.signals import arm_pod, disarm_pod, listen
from rlft.config import Config, DistributedConfig, EngineSettings, EnvironmentConfig
from rlft.config.environment import unscored
from rlft.engines.base import Engine
from rlft.engines.chat_endpoint import AskedModel
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.loading import load_environment
from rlft.environments.contract.several import Several
from rlft.environments.fingerprints import environment_fingerprints
from rlft.files import folder_prefix, remove_left_behind
from rlft.harness.asked import AskedPlayer
from rlft.harness.rollout import Player, PolicyPlayer, SamplingSettings
from rlft.models import Policy, PolicyFolder, load_policy
from rlft.models.live import holds_reference, twin_of
from rlft.models.origin import choose_device
from rlft.progress import Progress, silent
from rlft.texts.secrets import hide_in_logs
from rlft.training.chosen_loss import loss_fingerprint
from rlft.training.distributed.director import Trainers, shared_folder


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


SCRATCH_VARIABLE = "RLFT_SCRATCH"


@dataclass(frozen=True, slots=True)
class Lent:
    """What the pipeline's body lends to the steps of its process; a step in a process of its own has these defaults.

    `progress` takes the reports of the stage that is open, and `distributed` has all settings of the run's trainers.
    """

    progress: Progress = silent
    distributed: DistributedConfig | None = None


class Runtime:
    """Holds live policies, environments, engines, the process that uses Ray, and a scratch folder for policies."""

    def __init__(self) -> None:
        self.policies = LivePolicies()
        self._environments: dict[str, BaseEnv] = {}  # by settings, as JSON
        self._engines: dict[str, Engine] = {}
        self._scratch = _make_scratch()
        self._trainers: Trainers | None = None
        self.lent = Lent()

    @property
    def training_progress(self) -> Progress:
        """What takes the reports of a training step."""
        return self.policies.training_progress or self.lent.progress

    def environment(self, settings: EnvironmentConfig) -> BaseEnv:
        """Return the environment of these settings, made once. Raises EnvironmentSetupError."""
        key = settings.model_dump_json()
        if key not in self._environments:
            made = self._environments[key] = open_environment(settings)
            # What can score can be attempted in as well: it is not made twice.
            self._environments.setdefault(unscored(settings).model_dump_json(), made)
        return self._environments[key]

    def engine(self, settings: EngineSettings, batch_size: int, device_type: str) -> Engine:
        """Return the engine of these settings; one that has to be started is started once."""
        kind = settings.kind.on(device_type)
        if not kind.loads_weights:
            return kind.create(settings, batch_size)  # samples with the live policy itself; there is nothing to keep
        key = f"{settings.model_dump_json()} {batch_size} {device_type}"
        if key not in self._engines:
            self._engines[key] = kind.create(settings, batch_size)
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

    def trainers(self, settings: DistributedConfig, device: str) -> Trainers:
        """Return the processes that train together; they are started by their first round.

        Where they are, and how long they are waited for, says what is lent, which a step's settings leave out.
        """
        if self._trainers is None:
            settings, on_gpu = self.lent.distributed or settings, choose_device(device).type == "cuda"
            self._trainers = Trainers(settings, on_gpu, shared_folder(settings.address, self._scratch))
        return self._trainers

    def new_folder(self) -> Path:
        """Return a new path to save a policy to, and remove those of earlier steps, which are stored by now."""
        for old in self._scratch.iterdir():
            shutil.rmtree(old, ignore_errors=True)
        return Path(tempfile.mkdtemp(dir=self._scratch)) / "policy"

    def close(self) -> None:
        """End the engines and the trainers, and give back memory and the scratch folder."""
        for engine in self._engines.values():
            engine.close()
        self._engines.clear()
        if self._trainers is not None:
            self._trainers.close()
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
    return Runtime()


def stop_runtime() -> None:
    """Close the shared state; the pipeline's cleanup hook."""
    if (state := _state()) is not None:
        state.close()
    disarm_pod()


def current_run() -> PipelineRunResponse:
    """Return ZenML's run of the pipeline whose body goes on in this process."""
    context = DynamicPipelineRunContext.get()
    assert context is not None, "this is called in the body of a pipeline"
    return context.run


def shared_runtime() -> Runtime:
    """Return the runtime of the run that goes on in this process, for the pipeline's body."""
    state = _state()
    assert state is not None, "the pipeline has start_runtime as its init hook"
    return state


def current_runtime() -> Runtime:
    """Return the runtime of this process for a step; a new one for a step that runs outside a pipeline."""
    listen()
    if StepContext.get() is not None:
        state = get_step_context().pipeline_state
        if isinstance(state, Runtime):
            return state
    return Runtime()


def pipeline_environment(settings: EnvironmentConfig) -> BaseEnv:
    """Return the environment of these settings for a pipeline's body: the one that steps in this process use too."""
    state = _state()
    return open_environment(settings) if state is None else state.environment(settings)


def _state() -> Runtime | None:
    """Return the runtime of the run that goes on in this process; `None` if there is none."""
    context = get_or_create_run_context()
    return context.state if context.initialized and isinstance(context.state, Runtime) else None


WARM_POLICIES = 2  # the one in training, and the reference or the one that is evaluated


@dataclass(slots=True)
class Beside:
    """One round is trained in a thread of its own while the next is sampled in that of the pipeline's body.

    `progress` takes the reports of the training. If it is `here`, in this process, it changes a `twin` of the policy
    that is sampled from, and `reference` is the artifact of the policy that it reads for a KL. Until `may_train` is set
    it waits then, and what it needs is loaded before that: nothing may be loaded while it computes or a policy samples,
    as libraries then change torch's settings for all threads. `has_begun` is set once its step is running.
    """

    progress: Progress
    reference: ArtifactVersionResponse | None = None
    here: bool = True
    twin: Policy | None = None
    may_train: threading.Event = field(default_factory=threading.Event)
    has_begun: threading.Event = field(default_factory=threading.Event)


class LivePolicies:
    """Holds the policies of the last steps, by their content."""

    def __init__(self) -> None:
        self._policies: dict[str, Policy] = {}  # by content hash, the least recently used first
        self._beside: Beside | None = None

    def of(self, folder: PolicyFolder, device: str) -> Policy:
        """Return the live policy with the content of `folder`, loaded if need be; it must not be changed."""
        policy = self._take(folder, device)
        self.keep(policy)
        return policy

    def borrow(self, folder: PolicyFolder, device: str) -> Policy:
        """Return it like `of`, for a step that changes it: it is not kept here until `keep` brings it back.

        While the next round is sampled it is a twin, and whoever samples goes on with the policy itself.
        """
        if (beside := self._beside) is not None:
            beside.may_train.wait()
            if (twin := beside.twin) is not None:
                beside.twin = None
                return twin
        return self._take(folder, device)

    def keep(self, policy: Policy) -> None:
        """Keep a policy for later steps. It must be in the state that was last saved or loaded."""
        self._policies[policy.metadata.content_hash] = policy
        while len(self._policies) > WARM_POLICIES:
            self._policies.pop(next(iter(self._policies)))

    @contextmanager
    def beside(
        self, progress: Progress, reference: ArtifactVersionResponse | None = None, *, here: bool = True
    ) -> Iterator[Beside]:
        """Expect a round to be trained and the next one to be sampled at the same time, while the context is open.

        `here` says whether this process trains, and not trainers elsewhere, which have the policy themselves.
        """
        self._beside = beside = Beside(progress, reference, here)
        try:
            yield beside
        finally:
            beside.may_train.set()
            self._beside = None

    @property
    def training_progress(self) -> Progress | None:
        """What takes the reports of a training that goes on beside sampling; `None` if none does."""
        return None if (beside := self._beside) is None else beside.progress

    def note_training(self) -> None:
        """Note that the step that trains is running, if it does beside sampling."""
        if (beside := self._beside) is not None:
            beside.has_begun.set()

    def let_train(self, live: Policy, device: str) -> None:
        """If a round is to be trained beside the sampling from `live`, give it what it needs, and let it begin.

        To be called before anything is sampled, for which a model is set up otherwise.
        """
        if (beside := self._beside) is None or not beside.here:
            return
        beside.twin = twin_of(live)
        self._policies.pop(live.metadata.content_hash, None)
        if beside.reference is not None and beside.reference.content_hash not in self._policies:
            reference: PolicyFolder = beside.reference.load()
            if not holds_reference(live.metadata, reference.metadata):
                self.of(reference, device)
        beside.may_train.set()

    def clear(self) -> None:
        """Give back their memory."""
        self._policies.clear()

    def _take(self, folder: PolicyFolder, device: str) -> Policy:
        return self._policies.pop(folder.metadata.content_hash, None) or load_policy(folder, choose_device(device))


def tag_round(*outputs: str) -> None:
    """Tag outputs of the running step `round=N` if its id is that of a round of training, such as `train_grpo_r007`.

    N counts from 0, as in the id. A validation between rounds belongs to no round, and outside a step nothing is done.
    """
    if StepContext.get() is None:
        return
    context = get_step_context()
    number = round_of(context.step_run.name)
    if number is not None:
        for output in outputs:
            context.add_output_tags([f"round={number}"], output)


def keep_warm() -> None:
    """Let a pipeline's hooks make and end the state of its process once, not with each step. Call in its init hook.

    Only of its local orchestrator ZenML knows that steps share a process. In a pod the first step would end the policy,
    the engine and the handler of SIGTERM, and each one after it would make its own. Nothing public says so: this is the
    one place where rlft changes a class of others.
    """
    from zenml.execution.pipeline.dynamic.run_context import DynamicPipelineRunContext

    context = DynamicPipelineRunContext.get()
    if context is not None and context.runner.orchestrator.run_init_cleanup_at_step_level:
        type(context.runner.orchestrator).run_init_cleanup_at_step_level = False  # type: ignore[assignment]
