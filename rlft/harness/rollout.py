"""Collects rollouts: chooses the tasks of a round, and attempts each several times with seeds of its own."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import Field

from rlft.config import EngineSettings, HarnessConfig, Section
from rlft.engines.base import Engine, Sampling
from rlft.engines.chat_endpoint import AskedModel, ChatEndpoint
from rlft.environments.contract.base import BaseEnv
from rlft.harness.asked import ask_attempts
from rlft.harness.dialogue import Attempt
from rlft.harness.examples import Examples
from rlft.harness.sampled import run_attempts
from rlft.models import Policy
from rlft.models.flops import sampling_costs, shape_of
from rlft.progress import Progress, silent
from rlft.tasks.curriculum import tasks_by_shares, tasks_of_round
from rlft.tasks.splits import sample_tasks
from rlft.types import Rollout, Rollouts, Split, Task, TaskSet, derive_seed

logger = logging.getLogger(__name__)

Played = tuple[list[Rollout], dict[str, float]]  # rollouts in the order of their attempts, and what was measured


class Selection(Section):
    """Says which tasks to attempt: `count` train tasks of a `round`, or at most `count` (all if `None`) of each split.

    The splits are `splits`; without them it is a round. Each task gets `num_generations` attempts. `label` begins the
    rollouts' ids and is part of their seeds. With several environments the tasks of a round come by their `shares`.
    """

    label: str
    num_generations: int
    round: int = 0
    count: int | None = None
    splits: list[Split] | None = None
    shares: dict[str, float] | None = Field(default=None, exclude_if=lambda shares: shares is None)


class SamplingSettings(Section):
    """Says how attempts are sampled, and with which seed; see `rollout`, `evaluation` and `harness` in the config.

    `examples` are solved tasks that the model reads before each prompt, as only prompted controls do.
    """

    temperature: float
    max_completion_length: int
    batch_size: int
    seed: int
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    engine: EngineSettings = EngineSettings()
    harness: HarnessConfig = HarnessConfig()
    examples: Examples | None = None

    @property
    def of_tokens(self) -> Sampling:
        """The settings by which an engine draws tokens."""
        return Sampling(self.temperature, self.max_completion_length, self.top_p, self.top_k, self.min_p)


def select_tasks(task_set: TaskSet, selection: Selection, *, seed: int) -> tuple[Task, ...]:
    """Return the tasks that `selection` names; `seed` decides the order of a round's."""
    if selection.splits is None:
        count = selection.count or 1
        if selection.shares is not None:
            return tasks_by_shares(task_set, selection.shares, round=selection.round, count=count, seed=seed)
        return tasks_of_round(task_set, round=selection.round, count=count, seed=seed)
    return tasks_of_splits(task_set, selection.splits, limit=selection.count)


def tasks_of_splits(task_set: TaskSet, splits: Sequence[Split], *, limit: int | None = None) -> tuple[Task, ...]:
    """Return the tasks of some splits, at most `limit` of each, in their stored order.

    With a limit they are a sample, always the same, since the first rows of a sorted file may all be of one kind.
    """
    return tuple(task for split in splits for task in sample_tasks(task_set.split(split), limit))


class Player(Protocol):
    """Attempts tasks: a policy with the engine that samples from it, or a model behind an address."""

    def play(
        self,
        attempts: Sequence[Attempt],
        environment: BaseEnv,
        sampling: Sampling,
        *,
        environment_fingerprint: str,
        harness: HarnessConfig | None,
        examples: Examples | None,
        progress: Progress,
    ) -> Played:
        """Attempt every task; the model reads `examples` before each prompt."""
        ...


@dataclass(frozen=True, slots=True)
class PolicyPlayer:
    """Attempts tasks with the policy that `engine` has loaded."""

    policy: Policy
    engine: Engine

    def play(self, attempts: Sequence[Attempt], environment: BaseEnv, sampling: Sampling, **settings: Any) -> Played:
        """Attempt every task by `run_attempts`, and measure what sampling costs."""
        rows = run_attempts(attempts, environment, self.policy, self.engine, sampling, **settings)
        costs = sampling_costs(shape_of(self.policy.model), rows, shares_prompts=self.policy.shares_prompts)
        return rows, {**self.engine.metrics, **costs}


@dataclass(frozen=True, slots=True)
class AskedPlayer:
    """Attempts tasks with a model behind an address, whose FLOPs nobody knows."""

    model: AskedModel

    def play(self, attempts: Sequence[Attempt], environment: BaseEnv, sampling: Sampling, **settings: Any) -> Played:
        """Attempt every task by `ask_attempts`, and count the tokens that the endpoint reports."""
        with closing(ChatEndpoint(self.model)) as endpoint:
            return ask_attempts(attempts, environment, endpoint, sampling, **settings)


def collect_rollouts(
    tasks: Sequence[Task],
    environment: BaseEnv,
    player: Player,
    sampling: Sampling,
    *,
    num_generations: int,
    round: int,
    seed: int,
    label: str,
    environment_fingerprint: str = "",
    harness: HarnessConfig | None = None,
    examples: Examples | None = None,
    first_place: int = 0,
    progress: Progress = silent,
) -> Rollouts:
    """Attempt each task `num_generations` times with the policy or model of `player`.

    `label` (such as `train` or `evaluation`) and `round` are part of each rollout's id and seed. Evaluations of
    different policies under the same label and round draw the same random numbers, which makes them comparable.
    `environment_fingerprint` identifies the environment's code in each rollout; `harness` bounds the conversations.
    `examples` are read before each prompt. `first_place` is how many tasks were attempted in the round before these: a
    task's place is part of its rollouts' ids and seeds, too.
    """
    started = time.perf_counter()
    attempts = [
        Attempt(
            rollout_id=f"{label}-{round}-{place}-{task.id}-{sample}",
            task=task,
            sample=sample,
            round=round,
            seed=derive_seed(seed, label, round, place, task.id, sample),
        )
        for place, task in enumerate(tasks, first_place)
        for sample in range(num_generations)
    ]
    rows, measured = player.play(
        attempts,
        environment,
        sampling,
        environment_fingerprint=environment_fingerprint,
        harness=harness,
        examples=examples,
        progress=progress,
    )
    return Rollouts(rows=tuple(rows), seconds=time.perf_counter() - started, metrics=measured)
