"""The control by rejection sampling, or expert iteration: a policy imitates the best of its own attempts.

As GRPO does, it samples anew from the current policy in each round, the same tasks with the same seeds. It needs a
check of answers and no gold.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rlft.errors import PolicyError
from rlft.evaluation.searches.validator import (
    FACTORS,
    Best,
    Candidate,
    ControlReport,
    Terms,
    Validator,
    rate_after_trials,
)
from rlft.models import Policy
from rlft.models.flops import ROLLOUT_FLOPS, encoded, sampling_costs, shape_of
from rlft.tasks.curriculum import tasks_of_round
from rlft.training.algorithms.rejection_sampling import Form, choose_attempts
from rlft.training.imitation import Imitator, Memory
from rlft.types import Rollout, Rollouts, derive_seed


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


logger = logging.getLogger(__name__)

TRIAL = 1 / 12  # share of the budget for each trial: two thirds or more are left for the two forms
TRIAL_ROUNDS = 1 / 6  # share of the rounds in a trial
SCARCE = 1 / 20  # with a smaller share of the attempts solved in a trial the form `full` says nothing about rates
FEWEST_ROUNDS = 2  # with fewer in a trial the given learning rate is taken without trials


def run_rejection_control(policy: Policy, validator: Validator, terms: Terms) -> ControlReport:
    """Change `policy` in place to the best validated one of rejection sampling, in the form that does better.

    Both forms share the budget. Batch size, warm-up and the middle learning rate are those of the warm start. Raises as
    `collect_rollouts` and `score_rollouts` do.
    """
    loop = Rejection(policy, validator, terms)
    loop.run(terms.middle_rate(policy))
    return loop.best.report(terms, loop.spent, loop.imitated, attempts=loop.attempts)


@dataclass(frozen=True, slots=True)
class Course:
    """Says how one training goes: its form, learning rate and rounds, when it is validated, and at which FLOPs it ends.

    `limit` counts what was `spent` before, too.
    """

    form: Form
    learning_rate: float
    rounds: int
    validate_every: int
    limit: float

    def validations_left(self, done: int) -> int:
        """Return how many validations come after `done` rounds; there is one after the last round in any case."""
        return math.ceil(self.rounds / self.validate_every) - done // self.validate_every


@dataclass
class Rejection:
    """Runs both forms from the weights that `policy` has now, and keeps those of the best checkpoint.

    Both forms get the same share of the budget and as many rounds as GRPO had, as that is how often a policy learns
    from what it has become. A round pays with fewer attempts at each task, and where 2 cost too much with fewer tasks,
    which are the first ones of GRPO's round. All FLOPs count in `spent`; `attempts` were sampled, of which `imitated`
    were trained on.
    """

    policy: Policy
    validator: Validator
    terms: Terms
    spent: float = 0.0
    attempts: int = 0
    imitated: int = 0

    def __post_init__(self) -> None:
        self.best, terms = Best(self.policy, self.validator), self.terms
        assert terms.sampling is not None
        assert terms.training is not None
        self.sampling, self.training, self.rounds = terms.sampling, terms.training, terms.rounds
        self.budget, self.validation_flops = terms.flops or 0.0, terms.validation_flops or 0.0
        self._cost: RoundCost | None = None

    def run(self, learning_rate: float) -> None:
        """Find the best learning rate around this one, then run each form at it.

        A budget that holds no round and no validation gets one of each nevertheless. Without any, as where all of
        GRPO's attempts failed, nothing is done.
        """
        if self.budget <= 0:
            return
        chosen = self._best_rate(learning_rate)
        half = (self.spent + self.budget) / 2
        self._train(Course("full", chosen, self.rounds, self.terms.validate_every, half))
        self._train(Course("best", chosen, self.rounds, self.terms.validate_every, self.budget))
        self.best.restore()

    def _best_rate(self, middle: float) -> float:
        """Try the first rounds at several learning rates; a budget too small for that goes to the one in the middle.

        The form is `full`, or `best` where that finds next to nothing to imitate: its trials would measure noise.
        """
        rounds = self._rounds_of_trial()
        if rounds < FEWEST_ROUNDS:
            return middle
        form: Form = "full"
        self._try(form, middle, rounds)
        if self.imitated < SCARCE * self.attempts:
            form = "best"
            self._try(form, middle, rounds)
        for factor in FACTORS[1:]:
            self._try(form, middle * factor, rounds)
        return rate_after_trials(self.best.leading(form), middle)

    def _try(self, form: Form, learning_rate: float, rounds: int) -> None:
        limit = self.spent + self.budget * TRIAL
        self._train(Course(form, learning_rate, rounds, rounds, limit))

    def _rounds_of_trial(self) -> int:
        """Return how many rounds with groups of 2 a trial has, if attempts cost what they cost in GRPO's rounds."""
        pair = 2 * self.budget / (self.rounds * self.training.num_generations)
        fitting = (self.budget * TRIAL - self.validation_flops) / pair
        return min(math.ceil(self.rounds * TRIAL_ROUNDS), math.floor(fitting))

    def _train(self, course: Course) -> None:
        """Train from the start until the course's rounds are done or its FLOPs are spent.

        The learning rate falls linearly to 0. Numbers that go wrong end the training with what was validated before.
        """
        self.best.restart()
        imitator = Imitator(
            self.policy,
            temperature=self.sampling.temperature,
            memory=Memory.of(self.training),
            max_grad_norm=self.training.max_grad_norm,
            where="rejection sampling",
        )
        validated = done = 0
        try:
            for number in range(course.rounds):
                size = self._size(course, number)
                if 0 in size:
                    logger.info("%s: the budget ends after %d of %d rounds", course.form, number, course.rounds)
                    break
                self._round(course, number, size, imitator)
                done = number + 1
                if done % course.validate_every == 0 or done == course.rounds:
                    self._validate(course, done, imitator)
                    validated = done
        except PolicyError as cause:
            rate = course.learning_rate
            logger.warning("%s, learning rate %g ends after %d rounds: %s", course.form, rate, done, cause.what)
            self.best.candidates.append(Candidate(rate, len(imitator.state.losses), None, done, course.form))
            return
        if done > validated:
            self._validate(course, done, imitator)

    def _size(self, course: Course, number: int) -> tuple[int, int]:
        """Return how many tasks a round gets, and how many attempts at each, if the rounds share the FLOPs left.

        No tasks are returned where nothing is left. The very first round has a task in any case, as what it costs is
        not known yet: it is taken for what GRPO's attempts cost.
        """
        tasks, group = self.training.tasks_per_round, self.training.num_generations
        left = course.limit - self.spent - course.validations_left(number) * self.validation_flops
        share = left / (course.rounds - number)
        if self._cost is not None:
            return self._cost.within(share, tasks, group, course.form)
        usual = share / (self.budget / self.rounds) * group
        if usual >= 2:
            return tasks, min(group, math.floor(usual))
        return max(1, math.floor(tasks * usual / 2)), 2

    def _round(self, course: Course, number: int, size: tuple[int, int], imitator: Imitator) -> None:
        """Sample tasks of a round, and take a step on each batch of what is chosen, as far as the budget allows."""
        seed, training = self.sampling.seed, self.training
        tasks = tasks_of_round(self.validator.tasks, round=number, count=training.tasks_per_round, seed=seed)[: size[0]]
        player = self.validator.player_of(self.policy)
        rollouts, rewards = self.validator.attempt(
            player, tasks, self.sampling, num_generations=size[1], round=number, label="train"
        )
        self.spent += rollouts.metrics[ROLLOUT_FLOPS]
        self.attempts += len(rollouts)
        chosen = choose_attempts(
            rollouts, rewards, course.form, leaves_out_truncated=training.mask_truncated_completions
        )
        before = self.spent
        for batch in self._batches(chosen, derive_seed(seed, "rejection", number)):
            cost = imitator.flops(batch)
            if self.spent + cost + self.validation_flops > course.limit:
                break
            self.spent += cost
            imitator.step(batch, self._rate(course, number, len(imitator.state.losses)))
            self.imitated += len(batch)
        self._cost = RoundCost.measured(self.policy, rollouts, *size, self.spent - before)

    def _rate(self, course: Course, number: int, steps: int) -> float:
        """Return the learning rate of a step: it rises over the warm-up, and falls from round to round."""
        warmup = min(self.terms.usual.warmup_steps, course.rounds // 4)
        return course.learning_rate * min(1.0, (steps + 1) / max(warmup, 1)) * (1 - number / course.rounds)

    def _batches(self, rollouts: list[Rollout], seed: int) -> Iterator[list[Rollout]]:
        """Yield all rollouts in an order that follows from `seed`, in batches of almost the same size."""
        if not rollouts:
            return
        order = np.random.default_rng(seed).permutation(len(rollouts))
        for part in np.array_split(order, math.ceil(len(rollouts) / self.terms.usual.batch_size)):
            yield [rollouts[index] for index in part]

    def _validate(self, course: Course, done: int, imitator: Imitator) -> None:
        """Validate the policy after `done` rounds, unless that exceeds the budget and something was validated."""
        if self.best.candidates and self.spent + self.validation_flops > course.limit:
            return
        flops = self.best.validate(course.learning_rate, imitator.state.losses, rounds=done, form=course.form)
        self.spent += flops
        self.validation_flops = max(self.validation_flops, flops)
