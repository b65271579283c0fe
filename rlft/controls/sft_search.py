"""Searches learning rate and length of supervised fine-tuning within a budget of FLOPs, by validation."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile

from rlft.chat import Chat
from rlft.controls.best import Best, Candidate
from rlft.controls.judging import Judge
from rlft.controls.rates import FACTORS, rate_after_trials
from rlft.errors import PolicyError
from rlft.flops import ModelShape, shape_of
from rlft.policy import Policy
from rlft.progress import Progress, silent
from rlft.sft.demonstration_file import Demonstration
from rlft.sft.encoding import Row, encode_demonstrations
from rlft.sft.state import SftState
from rlft.sft.training import draw_batches, train_sft

logger = logging.getLogger(__name__)

TRIAL = 1 / 6  # share of the budget for each learning rate: half of it is left for the best one
CHECKS = 4  # validations of the long training
FEWEST = 10  # steps; with fewer in a trial the budget goes to the given learning rate as a whole
EPOCHS = 30  # at most in one training


@dataclass
class Search:
    """Trains `policy` again and again from the weights that it has now, and keeps those of the best checkpoint.

    `validation_flops` is what one validation is expected to cost. All FLOPs count in `spent`.
    """

    policy: Policy
    demonstrations: Sequence[Demonstration]
    judge: Judge
    chat: Chat
    batch_size: int
    warmup_steps: int
    seed: int
    budget: float
    validation_flops: float
    progress: Progress = silent
    spent: float = 0.0

    def __post_init__(self) -> None:
        self.best = Best(self.policy, self.judge)
        self._rows = encode_demonstrations(self.policy, self.chat, self.demonstrations, self.progress)
        self._shape = shape_of(self.policy.model)

    def run(self, learning_rate: float) -> None:
        """Try learning rates around this one, train longest at the best, and put the best weights into the policy.

        A budget too small for trials goes to one training at this learning rate, of a step at least.
        """
        trials = self.budget - (len(FACTORS) + CHECKS) * self.validation_flops
        if self._steps_within(trials * TRIAL) >= FEWEST:
            for factor in FACTORS:
                self._train(learning_rate * factor, trials * TRIAL, checks=1)
            best = rate_after_trials(self.best.chosen, learning_rate)
            self._train(best, self.budget - self.spent - CHECKS * self.validation_flops, checks=CHECKS)
        else:
            self._train(learning_rate, self.budget - self.validation_flops, checks=1)
        self.best.restore()

    def _train(self, learning_rate: float, flops: float, *, checks: int) -> None:
        """Train from the start for so many FLOPs, and validate as often as `checks` says, at equal distances.

        Training ends when a validation does not fit the budget any more, and not when validations bring no new best:
        while the learning rate falls the last steps gain most.
        """
        self.best.restart()
        steps = max(1, self._steps_within(flops))
        costs = list(accumulate(cost for cost, _ in zip(self._costs(), range(steps), strict=False)))
        marks = {math.ceil(steps * number / checks) for number in range(1, checks + 1)}
        before, taken = self.spent, 0

        def checked(state: SftState) -> bool:
            nonlocal before, taken
            taken = state.steps
            if taken not in marks:
                return False
            self.spent = before + costs[taken - 1]
            paid = self.spent
            self.spent += self.best.validate(learning_rate, state.losses)
            before += self.spent - paid
            further = costs[min(taken + steps // checks, steps) - 1]
            return before + further + self.validation_flops > self.budget

        try:
            train_sft(
                self.policy,
                self.demonstrations,
                batch_size=self.batch_size,
                learning_rate=learning_rate,
                warmup_steps=min(self.warmup_steps, steps // 4),
                seed=self.seed,
                steps=steps,
                decays=True,
                chat=self.chat,
                progress=self.progress,
                ends=checked,
            )
        except PolicyError as cause:
            logger.warning("learning rate %g is left out: %s", learning_rate, cause.what)
            self.spent = before + costs[min(taken, steps - 1)]
            self.best.note_failure(Candidate(learning_rate, taken, None))

    def _costs(self) -> Iterator[float]:
        """Yield the FLOPs of each step of a training, padding included, without end."""
        for batch in draw_batches(len(self._rows), self.batch_size, self.seed):
            yield batch_flops(self._shape, [self._rows[index] for index in batch])

    def _steps_within(self, flops: float) -> int:
        """Return how many steps cost at most so many FLOPs and are at most `EPOCHS` epochs."""
        most = math.ceil(EPOCHS * len(self._rows) / min(self.batch_size, len(self._rows)))
        costs = (cost for cost, _ in zip(self._costs(), range(most), strict=False))
        return sum(1 for _ in takewhile(lambda spent: spent <= flops, accumulate(costs)))


def batch_flops(shape: ModelShape, rows: Sequence[Row]) -> float:
    """Return the FLOPs of training on these rows, padded to the longest, with logits at every token."""
    width = max(len(ids) for ids, _ in rows)
    tokens = len(rows) * width
    return shape.training(tokens, tokens, tokens * width)
