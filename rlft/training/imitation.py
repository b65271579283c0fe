"""Imitates by cross-entropy, with an optimizer of its own: the warm start, and the controls that are trained.

Rollouts are read as GRPO reads them: common beginnings once where the model allows it, without padding there, in parts
that fit a token budget, with logits at the imitated tokens alone.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import torch

from rlft.config import Section, TrainingConfig, WarmStartConfig
from rlft.config.environment import Isolation
from rlft.environments.contract.base import BaseEnv
from rlft.errors import PolicyError
from rlft.harness.chat.conversation import open_chat
from rlft.models import Policy
from rlft.models.flops import ModelShape, shape_of, training_flops
from rlft.models.optimizer import Optimizer
from rlft.progress import Progress, silent
from rlft.training.algorithms.sft import cross_entropy
from rlft.training.batching import Pair
from rlft.training.demonstration_file import Demonstration
from rlft.training.demonstrations import Chats, as_rollout, choose_demonstrations, encode_demonstrations, open_chats
from rlft.training.logprobs import differentiating, make_batch, split_parts, token_logprobs
from rlft.training.loss import Part, Whole
from rlft.types import Report, Rollout, Task


class Memory(Section):
    """Bounds what a step needs: `training.per_step_token_budget`, and whether layers are computed again going back."""

    token_budget: int | None = None
    checkpointing: bool = False

    @classmethod
    def of(cls, training: TrainingConfig) -> Memory:
        """Return the bounds that a config has."""
        return cls(token_budget=training.per_step_token_budget, checkpointing=training.gradient_checkpointing)


ENOUGH = Memory()


def imitate(policy: Policy, rollouts: Sequence[Rollout], *, temperature: float = 1.0, memory: Memory = ENOUGH) -> float:
    """Add the gradients of the mean cross-entropy over the sampled tokens of `rollouts`; return that mean, in nats.

    The distribution is that at `temperature`. `policy.find_out` must have been called before its model was changed.
    """
    groups: list[list[Pair]] = [[(rollout, 0.0)] for rollout in rollouts]  # an advantage is not needed
    whole = Whole(num_items=sum(int(rollout.loss_mask.sum()) for rollout in rollouts))
    loss = 0.0
    for pairs in split_parts(policy, groups, memory.token_budget):
        batch = make_batch(policy, pairs)
        with differentiating(policy, batch, memory.checkpointing):
            logprobs = token_logprobs(policy, batch, temperature, with_entropy=False).logprobs
            report = cross_entropy(Part(logprobs, logprobs.detach(), batch.advantages, batch.mask), whole)
            report.loss.backward()
        loss += float(report.loss.detach())
    return loss


def imitation_flops(shape: ModelShape, rollouts: Sequence[Rollout], *, shares_prompts: bool) -> float:
    """Return the FLOPs of `imitate` on these rollouts."""
    return training_flops(shape, rollouts, updates=1, iterations=1, shares_prompts=shares_prompts)


@dataclass(slots=True)
class SftState:
    """Holds each step's loss, learning rate and gradient norm so far."""

    losses: list[float] = field(default_factory=list)
    learning_rates: list[float] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """The number of optimizer steps taken."""
        return len(self.losses)


class Imitator:
    """Takes steps by which `policy` imitates rollouts, with a new AdamW in place of the optimizer that it has.

    `temperature` is that of the distribution that is trained, `where` the stage that an error names. `state` holds the
    losses of the steps, in nats per token.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        temperature: float = 1.0,
        memory: Memory = ENOUGH,
        max_grad_norm: float = 1.0,
        where: str = "warm_start",
    ) -> None:
        self.policy, self.temperature, self.memory = policy, temperature, memory
        self.max_grad_norm, self.where, self.state = max_grad_norm, where, SftState()
        policy.optimizer, policy.metadata = None, dataclasses.replace(policy.metadata, update=0)
        policy.model.eval()  # without dropout, as in reinforcement learning
        policy.find_out()  # it runs the model with its own attention, which `imitate` replaces
        self._shape = shape_of(policy.model)
        self.optimizer = Optimizer(policy.trainable(), betas=(0.9, 0.98), weight_decay=0.01)

    def flops(self, rollouts: Sequence[Rollout]) -> float:
        """Return what a step on these rollouts costs."""
        return imitation_flops(self._shape, rollouts, shares_prompts=self.policy.shares_prompts)

    def step(self, rollouts: Sequence[Rollout], learning_rate: float) -> None:
        """Take one optimizer step and note it in `state`.

        Raises PolicyError, with the weights as they were, if the loss or the gradient's norm is not finite.
        """
        self.optimizer.zero_grad()
        with self.optimizer.accumulating():
            loss = imitate(self.policy, rollouts, temperature=self.temperature, memory=self.memory)
        norm = self.optimizer.clip(self.max_grad_norm)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise PolicyError(
                f"the loss of step {self.state.steps + 1} is {loss:g}, the norm of its gradient {norm:g}",
                where=self.where,
                fix="lower warm_start.learning_rate",
            )
        self.optimizer.step(learning_rate)
        self.policy.note_change(update=0)
        self.state.losses.append(loss)
        self.state.learning_rates.append(learning_rate)
        self.state.grad_norms.append(norm)


@dataclass(frozen=True, slots=True)
class SftReport(Report):
    """Reports the steps taken, the seconds of training, and the mean loss of the last tenth of the steps.

    Losses are in nats per imitated token. `losses`, `learning_rates` and `grad_norms` (before clipping) have one number
    per step; `demonstrations` is how many there were to train on.
    """

    steps: int
    seconds: float
    loss: float
    demonstrations: int
    losses: tuple[float, ...] = ()
    learning_rates: tuple[float, ...] = ()
    grad_norms: tuple[float, ...] = ()

    @classmethod
    def of(cls, state: SftState, demonstrations: int, seconds: float) -> SftReport:
        """Return the report of training that has ended in this state."""
        tail = state.losses[-max(1, math.ceil(state.steps / 10)) :]
        return cls(
            steps=state.steps,
            seconds=seconds,
            loss=sum(tail) / len(tail) if tail else math.nan,
            demonstrations=demonstrations,
            losses=tuple(state.losses),
            learning_rates=tuple(state.learning_rates),
            grad_norms=tuple(state.grad_norms),
        )


def run_sft(
    policy: Policy,
    settings: WarmStartConfig,
    tasks: Sequence[Task],
    environment: BaseEnv,
    *,
    seed: int,
    shares: Mapping[str, float] | None = None,
    isolation: Isolation | None = None,
    progress: Progress = silent,
    memory: Memory = ENOUGH,
) -> SftReport:
    """Train `policy` in place on demonstrations of the tasks.

    `shares` are those of several environments. `isolation` is that of the harness: where the tools run to which
    demonstrations are played. Raises as `choose_demonstrations` and `train_sft` do.
    """
    chat = open_chats(policy, environment, isolation)
    shown = choose_demonstrations(settings, tasks, environment, shares=shares, isolation=isolation, progress=progress)
    return train_sft(policy, shown, settings, seed=seed, chat=chat, progress=progress, memory=memory)


def train_sft(
    policy: Policy,
    demonstrations: Sequence[Demonstration],
    settings: WarmStartConfig,
    *,
    seed: int,
    chat: Chats | None = None,
    progress: Progress = silent,
    memory: Memory = ENOUGH,
    decays: bool = False,
    ends: Callable[[SftState], bool] | None = None,
) -> SftReport:
    """Change `policy` in place by cross-entropy on the assistant's tokens, for `settings.steps`.

    `chat` makes tokens of messages; by default that of the tokenizer, without tools. Batches follow from `seed`, each
    epoch in an order of its own. AdamW has a linear warm-up and, with `decays`, falls to 0; its state is dropped, as an
    earlier one is. `memory` bounds what a step needs. `ends` is asked after each step whether it was the last.
    Raises PolicyError before a loss or gradient that is not finite reaches the weights, and for a demonstration that is
    too long or has unknown characters.
    """
    chat = chat or open_chat(policy.tokenizer, multi_turn=any(len(shown.turns) > 1 for shown in demonstrations))
    rows = encode_demonstrations(policy, chat, demonstrations, progress)
    rollouts = [as_rollout(row, number) for number, row in enumerate(rows)]
    imitator = Imitator(policy, memory=memory)
    state, started, tokens = imitator.state, time.perf_counter(), 0
    for batch in islice(draw_batches(len(rows), settings.batch_size, seed), settings.steps):
        progress(state.steps, settings.steps, "steps", tokens=tokens, loss=(state.losses or [None])[-1])
        rate = settings.learning_rate * (1 - state.steps / settings.steps if decays else 1)
        imitator.step([rollouts[i] for i in batch], rate * min(1.0, (state.steps + 1) / max(settings.warmup_steps, 1)))
        tokens += sum(len(rows[i][0]) for i in batch)
        if ends is not None and ends(state):
            break
    progress(state.steps, settings.steps, "steps", tokens=tokens, loss=(state.losses or [None])[-1])
    return SftReport.of(state, len(rows), time.perf_counter() - started)


def draw_batches(count: int, batch_size: int, seed: int) -> Iterator[list[int]]:
    """Yield batches of indices without end, each epoch in an order of its own; all batches have the same size.

    What is left at the end of an epoch and fills no batch is left out of that epoch.
    """
    generator = torch.Generator().manual_seed(seed)
    size = min(batch_size, count)
    while True:
        order = torch.randperm(count, generator=generator).tolist()
        for start in range(0, count - size + 1, size):
            yield order[start : start + size]
