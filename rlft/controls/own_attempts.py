"""Chooses which of its own attempts a policy imitates, imitates them, and foretells what a round of them costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rlft.config import TrainingConfig
from rlft.errors import PolicyError
from rlft.flops import ROLLOUT_FLOPS, encoded, sampling_costs, shape_of
from rlft.policy import Policy
from rlft.policy.optimizer import Optimizer
from rlft.statistics import varies
from rlft.training.imitation import imitate, imitation_flops
from rlft.types import Reward, Rewards, Rollout, Rollouts

Form = Literal["full", "best"]


def choose_attempts(
    rollouts: Rollouts, rewards: Rewards, form: Form, *, leaves_out_truncated: bool = False
) -> list[Rollout]:
    """Return the attempts to imitate.

    `full` takes every attempt that is solved (STaR, arXiv:2203.14465; ReST-EM, arXiv:2312.06585), `best` the attempt of
    each task with the highest reward (RAFT, arXiv:2304.06767), the first of several, unless all are equal and not
    solved. Attempts without a score are left out, and with `leaves_out_truncated` those that a limit cut off.
    """
    groups: dict[str, list[tuple[Rollout, Reward, float]]] = {}
    for rollout, reward in zip(rollouts, rewards, strict=True):
        if reward.total is None or not rollout.loss_mask.any() or (leaves_out_truncated and rollout.truncated):
            continue
        groups.setdefault(rollout.task_id, []).append((rollout, reward, reward.total))
    if form == "full":
        return [rollout for group in groups.values() for rollout, reward, _ in group if reward.solved]
    best = [(group, max(group, key=lambda each: each[2])) for group in groups.values()]
    return [one[0] for group, one in best if one[1].solved or varies([total for *_, total in group])]


class Imitator:
    """Trains `policy` in place by cross-entropy on the tokens that it sampled, with an AdamW of its own.

    Rollouts are read as GRPO reads them (`rlft.training.imitation`). `losses` are those of the steps, in nats per
    token, under the distribution at the `temperature` of the sampling.
    """

    def __init__(self, policy: Policy, training: TrainingConfig, temperature: float) -> None:
        self.policy, self.training, self.temperature = policy, training, temperature
        self.losses: list[float] = []
        policy.model.eval()  # without dropout, as in reinforcement learning
        policy.find_out()  # it runs the model with its own attention, so before `attending` replaces that
        self._shape = shape_of(policy.model)
        self._optimizer = Optimizer(policy.trainable(), betas=(0.9, 0.98), weight_decay=0.01)

    def flops(self, rollouts: Sequence[Rollout]) -> float:
        """Return what a step on these rollouts costs."""
        return imitation_flops(self._shape, rollouts, shares_prompts=self.policy.shares_prompts)

    def step(self, rollouts: Sequence[Rollout], learning_rate: float) -> None:
        """Take one optimizer step. Raises PolicyError, before the weights change, if its numbers are not finite."""
        self._optimizer.zero_grad()
        with self._optimizer.accumulating():
            loss = imitate(
                self.policy,
                rollouts,
                temperature=self.temperature,
                token_budget=self.training.per_step_token_budget,
                checkpointing=self.training.gradient_checkpointing,
            )
        norm = self._optimizer.clip(self.training.max_grad_norm)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise PolicyError(
                f"the loss of step {len(self.losses) + 1} is {loss:g}, the norm of its gradient {norm:g}",
                where="rejection sampling",
                fix="lower warm_start.learning_rate",
            )
        self._optimizer.step(learning_rate)
        self.policy.note_change(update=0)
        self.losses.append(loss)


@dataclass(frozen=True, slots=True)
class RoundCost:
    """Foretells the FLOPs of a round from those of an earlier one that had `group` attempts at each of its `tasks`.

    `first` is the cost of one attempt at each task, of which `beginning` is that of what the prompts have in common and
    would cost as much for a single task. `further` is the cost of each further attempt at all of the tasks. `training`
    was the cost of the round's training.
    """

    beginning: float
    first: float
    further: float
    training: float
    tasks: int
    group: int

    @classmethod
    def measured(cls, policy: Policy, rollouts: Rollouts, tasks: int, group: int, training: float) -> RoundCost:
        """Take the cost of a round, whose groups have at least 2 attempts."""
        shape, shares = shape_of(policy.model), policy.shares_prompts
        one = [rollout for rollout in rollouts if rollout.sample == 0]
        first = sampling_costs(shape, one, shares_prompts=shares)[ROLLOUT_FLOPS]
        further = (rollouts.metrics[ROLLOUT_FLOPS] - first) / (group - 1)
        prompts = [rollout.token_ids[: rollout.prompt_length] for rollout in one]
        once, twice = (encoded(prompts, times=times, shares_prompts=shares) for times in (1, 2))
        beginning = shape.forward(twice[0] - once[0], 0, twice[1] - once[1])  # what one prompt has alone is read once
        return cls(beginning, first, further, training, tasks, group)

    def of(self, tasks: int, group: int, form: Form) -> float:
        """Return the cost with so many attempts at each of so many tasks; `best` imitates no more of larger groups."""
        grows = group / self.group if form == "full" else 1.0
        each = self.first - self.beginning + (group - 1) * self.further + grows * self.training
        return self.beginning + tasks / self.tasks * each

    def within(self, flops: float, tasks: int, group: int, form: Form) -> tuple[int, int]:
        """Return how many tasks and attempts at each a round of at most `flops` can have; there are so many at most.

        Attempts are given up first, down to 2, and then tasks, down to none.
        """
        if flops <= 0:
            return 0, 2
        fitting = [size for size in range(2, group + 1) if self.of(tasks, size, form) <= flops]
        if fitting:
            return tasks, fitting[-1]
        return max((fewer for fewer in range(1, tasks) if self.of(fewer, 2, form) <= flops), default=0), 2
