"""The probe: loads the model, samples a few attempts, scores them, and trains one update on them; keeps nothing.

It runs in a process of its own (`rlft.estimation.probing`), which is ended when its time is over. So each measurement
is written as soon as it is made, as a line of JSON.

    {"kind": "tasks", "seconds": ..., "validation": ..., "test": ..., "final": ...}
    {"kind": "model" | "warm_start" | "audit", "seconds": ...}
    {"kind": "round", "attempts": ..., "sample": ..., "score": ..., "train": ..., "tokens": ..., "varied": ...,
     "encoded": ..., "of_sequences": ..., "evaluated": ...}

In a round, `tokens` are those sampled, `encoded` those that sampling encoded, and `of_sequences` those of its sequences
one by one; an attempt of an evaluation, whose groups may be smaller, encodes `evaluated`. Every line has the peak of
memory so far as `memory` and `gpu_memory` (bytes, null without a GPU). Rewards are replaced before training, so that
every group differs and is trained on; `varied` is the share of the groups that did.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import IO

from rlft.audit.rewards import audit_by
from rlft.config import Config
from rlft.engines.base import Engine, Sampling
from rlft.engines.create import create_engine
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.loading import load_environment
from rlft.errors import RlftError
from rlft.estimation.counts import counts_in
from rlft.estimation.peak import peak_memory
from rlft.flops import ENCODED, OF_SEQUENCES, sampling_costs, shape_of
from rlft.harness.preparing import prepare_policy
from rlft.harness.rollout import PolicyPlayer, Selection, collect_rollouts, select_tasks
from rlft.judges.servers import judging
from rlft.policy import Policy
from rlft.policy.origin import create_policy
from rlft.rewards.scoring import score_by
from rlft.shortage import shortage_of
from rlft.tasks import ingest_tasks
from rlft.training.imitation import Memory, run_sft
from rlft.training.trainer import prepare_optimizer, train_round
from rlft.types import Rewards, TaskSet

logger = logging.getLogger(__name__)
_STEPS = 5  # of supervised training, from which the time of the others follows
_SHARE = 0.35  # of the time, which a whole warm start may take: then the attempts are those of the model that trains

Note = Callable[[str, Mapping[str, float]], None]


def main() -> None:
    """Read {config, seconds, began} from standard input, and write what is measured to the file descriptor in argv."""
    asked = json.load(sys.stdin)
    with open(int(sys.argv[-1]), "w", encoding="utf-8") as out:
        stage = ["starting"]
        try:
            probe(Config.model_validate(asked["config"]), _notes(out, stage), asked["began"] + asked["seconds"])
        except Exception as cause:  # whatever torch, an engine or a user's code throws: the parent tells it
            kind = None if isinstance(cause, RlftError) else shortage_of(cause)
            said = {"what": cause.what, "where": cause.where, "fix": cause.fix} if isinstance(cause, RlftError) else {}
            told = {"what": f"{type(cause).__name__}: {cause}", **said}
            out.write(json.dumps({"kind": "error", "after": stage[0], "shortage": kind, **told}) + "\n")


def probe(config: Config, note: Note, deadline: float) -> None:
    """Measure what a run of this config does, until about `deadline`, in seconds since the epoch."""
    started = time.time()
    environment = load_environment(config.environment.name, config.environment.kwargs)
    tasks = ingest_tasks(config.tasks, environment=config.environment.name, seed=config.tasks.seed)
    note("tasks", {"seconds": time.time() - started, **dataclasses.asdict(counts_in(tasks))})
    started = time.time()
    policy = create_policy(config.policy, seed=config.seed)
    prepare_policy(policy, environment, config.harness, config.policy)
    note("model", {"seconds": time.time() - started})
    with judging(environment):
        _measure(config, policy, tasks, environment, note, deadline)


def _measure(config: Config, policy: Policy, tasks: TaskSet, environment: BaseEnv, note: Note, deadline: float) -> None:
    """Measure the stages of a run while its judges answer."""
    engine = create_engine(
        config.rollout.engine_settings(), batch_size=config.rollout.batch_size, device_type=policy.device.type
    )
    try:
        note("round", _round(config, policy, tasks, environment, engine, 0, 1))  # so that something is measured
        if config.warm_start is not None:
            policy = _warm_start(config, policy, tasks, environment, note, deadline)
        _rounds(config, policy, tasks, environment, engine, note, deadline)
    finally:
        engine.close()
    if config.reward.audit:  # last, as nothing else rests on it
        _audit(config, tasks, environment, note)


def _warm_start(
    config: Config, policy: Policy, tasks: TaskSet, environment: BaseEnv, note: Note, deadline: float
) -> Policy:
    """Measure some steps of the warm start, and make all of it if there is time."""
    settings = config.warm_start
    assert settings is not None

    def train(live: Policy, steps: int) -> float:
        began = time.time()
        memory = Memory.of(config.training)
        some = settings.model_copy(update={"steps": steps})
        train_tasks = tasks.split("train")
        run_sft(live, some, train_tasks, environment, seed=config.seed, shares=config.shares, memory=memory)
        return time.time() - began

    first = train(policy, 1)  # demonstrations are chosen and encoded, and what is tried out at a first use
    few = min(_STEPS, settings.steps)
    each = max(train(policy, few) - first, 0) / max(few - 1, 1)
    expected = first + each * settings.steps
    left = deadline - time.time()
    policy = create_policy(config.policy, seed=config.seed)  # those steps are not to count
    prepare_policy(policy, environment, config.harness, config.policy)
    note("warm_start", {"seconds": expected, "whole": 0.0})
    if expected < _SHARE * left:
        note("warm_start", {"seconds": train(policy, settings.steps), "whole": 1.0})
    return policy


def _audit(config: Config, tasks: TaskSet, environment: BaseEnv, note: Note) -> None:
    began = time.time()
    audit_by(config.reward, tasks.split("train"), environment, harness=config.harness, seed=config.seed)
    note("audit", {"seconds": time.time() - began})


def _rounds(
    config: Config,
    policy: Policy,
    tasks: TaskSet,
    environment: BaseEnv,
    engine: Engine,
    note: Note,
    deadline: float,
) -> None:
    """Measure rounds of ever more tasks, up to a whole one, as long as there is time for the next."""
    most = config.training.tasks_per_round
    sizes = sorted({min(2**power, most) for power in range(1, most.bit_length() + 1)})
    for number, (size, larger) in enumerate(pairwise([*sizes, 0]), start=1):
        began = time.time()
        note("round", _round(config, policy, tasks, environment, engine, number, size))
        if time.time() + (time.time() - began) * max(larger / size, 1.0) > deadline:
            break


def _round(
    config: Config, policy: Policy, tasks: TaskSet, environment: BaseEnv, engine: Engine, number: int, size: int
) -> dict[str, float]:
    """Sample, score and train on so many tasks, and return what that has taken."""
    began = time.time()
    engine.load_policy(policy)
    sampling = Sampling(config.rollout.temperature, config.rollout.max_completion_length)
    some = Selection(label="train", num_generations=1, round=number, count=size, shares=config.shares)
    rollouts = collect_rollouts(
        select_tasks(tasks, some, seed=config.seed),
        environment,
        PolicyPlayer(policy, engine),
        sampling,
        num_generations=config.training.num_generations,
        round=number,
        seed=config.seed,
        label="train",
        harness=config.harness,
    )
    sampled = time.time()
    rewards = score_by(config.reward, rollouts, tasks.by_id(), environment)
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
        round=number,
        temperature=sampling.temperature,
        max_completion_length=sampling.max_completion_length,
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
        "of_sequences": rollouts.metrics[OF_SEQUENCES],
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


def _notes(out: IO[str], stage: list[str]) -> Note:
    """Return what writes a measurement at once."""

    def note(kind: str, measured: Mapping[str, float]) -> None:
        held = peak_memory()
        stage[0] = kind
        out.write(json.dumps({"kind": kind, **measured, "memory": held.process, "gpu_memory": held.gpu}) + "\n")
        out.flush()

    return note
