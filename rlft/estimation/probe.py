"""The probe: loads the model, samples a few attempts, scores them, and trains one update on them; keeps nothing.

It runs in a process of its own, so that its memory is its own, what it prints is not shown, and too little memory ends
it alone. What it measures are lines:

    {"kind": "tasks", "seconds": ..., "validation": ..., "test": ..., "final": ...}
    {"kind": "model" | "warm_start" | "audit", "seconds": ...}
    {"kind": "round", "attempts": ..., "sample": ..., "score": ..., "train": ..., "tokens": ...}

In a round, `tokens` are those sampled. Every line has the peak of memory so far as `memory` and `gpu_memory` (bytes,
null without a GPU). Rewards are replaced before training, so that every group differs and is trained on.
"""

from __future__ import annotations

import dataclasses
import os
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from rlft.config import Config, WarmStartConfig
from rlft.engines.base import Engine
from rlft.environments.contract.loading import load_environment
from rlft.errors import EngineError, MemoryShortError, RlftError, Shortage, shortage_of
from rlft.estimation.estimate import Probed
from rlft.estimation.machine import memory_error, peak_memory
from rlft.harness.preparing import prepare_policy
from rlft.harness.rollout import PolicyPlayer, SamplingSettings, collect_rollouts
from rlft.models import Policy
from rlft.models.origin import create_policy
from rlft.rewards.audit.rewards import audit_reward
from rlft.rewards.scoring import score_rollouts
from rlft.tasks import ingest_tasks
from rlft.tasks.curriculum import Selection, select_tasks
from rlft.training.imitation import Memory, run_sft
from rlft.training.trainer import Round, prepare_optimizer, train_round
from rlft.types import Rewards

_STAGE = "the probe"
_STEPS = 5  # of supervised training, from which the time of the others follows
_SHARE = 0.35  # of the time, which a whole warm start may take: then the attempts are those of the model that trains


def run_probe(config: Config, seconds: float) -> Probed:
    """Probe a config for about so many seconds, its start included, and until a round is measured.

    Raises EngineError where others may use the engine, MemoryShortError if memory ran out, and RlftError as the probe's
    own error says.
    """
    if not config.rollout.kind.restarts:
        raise EngineError(
            "a probe would put other weights into the servers, and a run may be sampling there",
            where="rollout.engine",
            fix="estimate with --set rollout.engine=transformers",
        )
    began = time.time()
    with ProcessPoolExecutor(1, get_context("spawn"), _say_nothing) as process:
        try:
            lines = process.submit(_probe, config, began + seconds).result()
        except BrokenProcessPool as ended:  # mostly by the system, which ends what takes too much memory
            raise _too_little(config, "memory", "its process was ended") from ended
    return Probed(lines, time.time() - began, max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0))


def _say_nothing() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


def _too_little(config: Config, kind: Shortage, said: str) -> MemoryShortError:
    return memory_error(_STAGE, ("model", "sampling", "updates"), config, kind, said)


def _probe(config: Config, deadline: float) -> list[dict[str, Any]]:
    """Return what was measured until about `deadline`, in seconds since the epoch."""
    try:
        return _measured(_Work(config, deadline))
    except RlftError:
        raise
    except Exception as cause:  # whatever torch, an engine or a user's code throws, which another process may not know
        kind = shortage_of(cause)
        if kind in ("memory", "gpu"):
            raise _too_little(config, kind, str(cause)) from None
        raise RlftError(f"{type(cause).__name__}: {cause}", where=_STAGE) from None


def _measured(work: _Work) -> list[dict[str, Any]]:
    config = work.config
    kind, settings = config.rollout.kind.on(work.policy.device.type), config.rollout.engine_settings()
    engine = kind.create(settings, config.rollout.batch_size)
    try:
        began = time.time()
        work.round(engine, 0, 1)  # so that something is measured
        each = time.time() - began
        if config.warm_start is not None:
            work.warm_start(config.warm_start)
        tasks = min(config.training.tasks_per_round, int((work.deadline - time.time()) / each))
        if tasks > 0:
            work.round(engine, 1, tasks)
    finally:
        engine.close()
    if config.reward.audit and time.time() < work.deadline:  # last, as nothing else rests on it
        work.audit()
    return work.lines


class _Work:
    """The work of a run, done and measured in parts."""

    def __init__(self, config: Config, deadline: float) -> None:
        self.config, self.deadline, self.lines = config, deadline, list[dict[str, Any]]()
        began = time.time()
        self.environment = load_environment(config.environment.name, config.environment.kwargs)
        self.tasks = ingest_tasks(config.tasks, environment=config.environment.name, seed=config.tasks.seed)
        final = sum(len(self.tasks.split(split)) for split in ("gate", "test", "off_distribution"))
        validation, test = len(self.tasks.split("validation")), len(self.tasks.split("test"))
        self._note("tasks", seconds=time.time() - began, validation=validation, test=test, final=final)
        began = time.time()
        self.policy = self._new_policy()
        self._note("model", seconds=time.time() - began)

    def _note(self, kind: str, **measured: float) -> None:
        """Add a measurement, with the peak of memory so far."""
        held = peak_memory()
        self.lines.append({"kind": kind, **measured, "memory": held.process, "gpu_memory": held.gpu})

    def _new_policy(self) -> Policy:
        policy = create_policy(self.config.policy, seed=self.config.seed)
        prepare_policy(policy, self.environment, self.config.harness, self.config.policy)
        return policy

    def warm_start(self, settings: WarmStartConfig) -> None:
        """Measure some steps of the warm start, and make all of it if there is time."""

        def train(steps: int) -> float:
            began = time.time()
            run_sft(
                self.policy,
                settings.model_copy(update={"steps": steps}),
                self.tasks.split("train"),
                self.environment,
                seed=self.config.seed,
                shares=self.config.shares,
                memory=Memory.of(self.config.training),
            )
            return time.time() - began

        first = train(1)  # demonstrations are chosen and encoded, and what is tried out at a first use
        few = min(_STEPS, settings.steps)
        expected = first + max(train(few) - first, 0) / max(few - 1, 1) * settings.steps
        self.policy = self._new_policy()  # those steps are not to count
        is_whole = expected < _SHARE * (self.deadline - time.time())
        self._note("warm_start", seconds=train(settings.steps) if is_whole else expected, whole=is_whole)

    def audit(self) -> None:
        """Measure the audit of the reward."""
        began, train = time.time(), self.tasks.split("train")
        audit_reward(train, self.environment, self.config.reward, harness=self.config.harness, seed=self.config.seed)
        self._note("audit", seconds=time.time() - began)

    def round(self, engine: Engine, number: int, size: int) -> None:
        """Measure what sampling, scoring and training on so many tasks take."""
        config, policy, began = self.config, self.policy, time.time()
        engine.load_policy(policy)
        sampling = SamplingSettings(
            temperature=config.rollout.temperature,
            max_completion_length=config.rollout.max_completion_length,
            seed=config.seed,
            harness=config.harness,
        )
        some = Selection(label="train", num_generations=1, round=number, count=size, shares=config.shares)
        rollouts = collect_rollouts(
            select_tasks(self.tasks, some, seed=config.seed),
            self.environment,
            PolicyPlayer(policy, engine),
            sampling,
            num_generations=config.training.num_generations,
            round=number,
            label="train",
        )
        sampled = time.time()
        rewards = score_rollouts(rollouts, self.tasks.by_id(), self.environment, config.reward)
        scored = time.time()
        prepare_optimizer(policy, config.training, None)
        # The attempts after this are to be those of the same policy; as a reference it takes the time of another one.
        training = config.training.model_copy(update={"learning_rate": 0.0})
        train_round(
            policy,
            rollouts,
            _differing(rewards),
            training,
            Round(
                number=number, temperature=sampling.temperature, max_completion_length=sampling.max_completion_length
            ),
            reference=policy,
        )
        self._note(
            "round",
            attempts=len(rollouts),
            sample=sampled - began,
            score=scored - sampled,
            train=time.time() - scored,
            tokens=float(sum(rollout.loss_mask.sum() for rollout in rollouts)),
        )


def _differing(rewards: Rewards) -> Rewards:
    """Return rewards of which every group has some of 0 and some of 1."""
    rows = (dataclasses.replace(each, total=float(place % 2), error=None) for place, each in enumerate(rewards))
    return dataclasses.replace(rewards, rows=tuple(rows))
