"""The probe: loads the model, samples a few attempts, scores them, and trains one update on them; keeps nothing.

It runs in a process of its own (`rlft.estimation.probing`), which is ended when its time is over, and ends by itself
with the one that started it. So each measurement is written as soon as it is made, as a line of JSON.

    {"kind": "tasks", "seconds": ..., "validation": ..., "test": ..., "final": ...}
    {"kind": "model" | "warm_start" | "audit", "seconds": ...}
    {"kind": "round", "attempts": ..., "sample": ..., "score": ..., "train": ..., "tokens": ..., "varied": ...,
     "encoded": ..., "evaluated": ...}

In a round, `tokens` are those sampled, and `encoded` those that sampling encoded; an attempt of an evaluation, whose
groups may be smaller, encodes `evaluated`. Every line has the peak of memory so far as `memory` and `gpu_memory`
(bytes, null without a GPU). Rewards are replaced before training, so that every group differs and is trained on;
`varied` is the share of the groups that did.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import IO, Any

from rlft.config import Config
from rlft.engines.base import Engine
from rlft.environments.contract.loading import load_environment
from rlft.errors import RlftError, shortage_of
from rlft.estimation.machine import peak_memory
from rlft.harness.preparing import prepare_policy
from rlft.harness.rollout import PolicyPlayer, SamplingSettings, collect_rollouts
from rlft.models import Policy
from rlft.models.flops import ENCODED, sampling_costs, shape_of
from rlft.models.origin import create_policy
from rlft.rewards.audit.rewards import audit_reward
from rlft.rewards.scoring import score_by
from rlft.tasks import ingest_tasks
from rlft.tasks.curriculum import Selection, select_tasks
from rlft.training.imitation import Memory, run_sft
from rlft.training.trainer import Round, prepare_optimizer, train_round
from rlft.types import Rewards

_STEPS = 5  # of supervised training, from which the time of the others follows
_SHARE = 0.35  # of the time, which a whole warm start may take: then the attempts are those of the model that trains

Note = Callable[[str, Mapping[str, float]], None]


def main(asked: Mapping[str, Any], file: str) -> None:
    """Probe what is `asked`, {config, seconds, began}, and write what is measured to a file."""
    with open(file, "w", encoding="utf-8") as out:
        try:
            probe(Config.model_validate(asked["config"]), partial(_note, out), asked["began"] + asked["seconds"])
        except Exception as cause:  # whatever torch, an engine or a user's code throws: the parent tells it
            kind = None if isinstance(cause, RlftError) else shortage_of(cause)
            said = {"what": cause.what, "where": cause.where, "fix": cause.fix} if isinstance(cause, RlftError) else {}
            told = {"what": f"{type(cause).__name__}: {cause}", **said}
            out.write(json.dumps({"kind": "error", "shortage": kind, **told}) + "\n")


def _note(out: IO[str], kind: str, measured: Mapping[str, float]) -> None:
    """Write a measurement at once, with the peak of memory so far."""
    held = peak_memory()
    out.write(json.dumps({"kind": kind, **measured, "memory": held.process, "gpu_memory": held.gpu}) + "\n")
    out.flush()


def probe(config: Config, note: Note, deadline: float) -> None:
    """Measure what a run of this config does, until about `deadline`, in seconds since the epoch."""
    work = _Work(config, note, deadline)
    kind, settings = config.rollout.kind.on(work.policy.device.type), config.rollout.engine_settings()
    engine = kind.create(settings, config.rollout.batch_size)
    try:
        note("round", work.round(engine, 0, 1))  # so that something is measured
        if config.warm_start is not None:
            work.warm_start()
        work.rounds(engine)
    finally:
        engine.close()
    if config.reward.audit:  # last, as nothing else rests on it
        work.audit()


class _Work:
    """The work of a run, done and measured in parts."""

    def __init__(self, config: Config, note: Note, deadline: float) -> None:
        self.config, self.note, self.deadline = config, note, deadline
        began = time.time()
        self.environment = load_environment(config.environment.name, config.environment.kwargs)
        self.tasks = ingest_tasks(config.tasks, environment=config.environment.name, seed=config.tasks.seed)
        final = sum(len(self.tasks.split(split)) for split in ("gate", "test", "off_distribution"))
        validation, test = len(self.tasks.split("validation")), len(self.tasks.split("test"))
        note("tasks", {"seconds": time.time() - began, "validation": validation, "test": test, "final": final})
        began = time.time()
        self.policy = self._new_policy()
        note("model", {"seconds": time.time() - began})

    def _new_policy(self) -> Policy:
        policy = create_policy(self.config.policy, seed=self.config.seed)
        prepare_policy(policy, self.environment, self.config.harness, self.config.policy)
        return policy

    def warm_start(self) -> None:
        """Measure some steps of the warm start, and make all of it if there is time."""
        settings = self.config.warm_start
        assert settings is not None

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
        left = self.deadline - time.time()
        self.policy = self._new_policy()  # those steps are not to count
        self.note("warm_start", {"seconds": expected, "whole": 0.0})
        if expected < _SHARE * left:
            self.note("warm_start", {"seconds": train(settings.steps), "whole": 1.0})

    def audit(self) -> None:
        """Measure the audit of the reward."""
        began, train = time.time(), self.tasks.split("train")
        audit_reward(train, self.environment, self.config.reward, harness=self.config.harness, seed=self.config.seed)
        self.note("audit", {"seconds": time.time() - began})

    def rounds(self, engine: Engine) -> None:
        """Measure rounds of ever more tasks, up to a whole one, as long as there is time for the next."""
        most = self.config.training.tasks_per_round
        sizes = sorted({min(2**power, most) for power in range(1, most.bit_length() + 1)})
        for number, (size, larger) in enumerate(pairwise([*sizes, 0]), start=1):
            began = time.time()
            self.note("round", self.round(engine, number, size))
            if time.time() + (time.time() - began) * max(larger / size, 1.0) > self.deadline:
                break

    def round(self, engine: Engine, number: int, size: int) -> dict[str, float]:
        """Sample, score and train on so many tasks, and return what that has taken."""
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
        rewards = score_by(config.reward, rollouts, self.tasks.by_id(), self.environment)
        scored = time.time()
        few = [rollout for rollout in rollouts if rollout.sample < config.evaluation.num_generations]
        costs = sampling_costs(shape_of(policy.model), few, shares_prompts=policy.shares_prompts)
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
        return {
            "attempts": len(rollouts),
            "sample": sampled - began,
            "score": scored - sampled,
            "train": time.time() - scored,
            "tokens": float(sum(rollout.loss_mask.sum() for rollout in rollouts)),
            "varied": _varied(rewards),
            "encoded": rollouts.metrics[ENCODED],
            "evaluated": costs[ENCODED] / len(few),
        }


def _differing(rewards: Rewards) -> Rewards:
    """Return rewards of which every group has some of 0 and some of 1."""
    rows = (dataclasses.replace(each, total=float(place % 2), error=None) for place, each in enumerate(rewards))
    return dataclasses.replace(rewards, rows=tuple(rows))


def _varied(rewards: Rewards) -> float:
    """Return the share of tasks whose attempts differ in reward, from 0 to 1."""
    groups: dict[str, set[float | None]] = {}
    for each in rewards:
        groups.setdefault(each.task_id, set()).add(each.total)
    return sum(len(totals) > 1 for totals in groups.values()) / max(len(groups), 1)
