"""The SFT control: imitates the answers of all train tasks, which GRPO's reward may use, too.

Which answers, which learning rate and for how long is searched within a budget of FLOPs, by validation.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, takewhile
from statistics import fmean

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
from rlft.models.flops import shape_of
from rlft.progress import Progress, silent
from rlft.training.demonstration_file import Demonstration
from rlft.training.demonstrations import (
    Answers,
    Chats,
    all_demonstrations,
    as_rollout,
    encode_demonstrations,
    open_chats,
    that_fit,
)
from rlft.training.imitation import ENOUGH, Memory, SftState, draw_batches, imitation_flops, train_sft

logger = logging.getLogger(__name__)

TRIALS = 1 / 2  # share of the budget for all trials: half of it is left for what did best
CHECKS = 4  # validations of the long training
FEWEST = 10  # steps; with fewer in a trial the whole budget goes to the given learning rate
EPOCHS = 30  # at most in one training


@dataclass
class Search:
    """Trains `policy` again and again from the weights that it has now, and keeps those of the best checkpoint.

    `demonstrations` are of one kind or more, by whose answers they hold; `answers` are those that the best checkpoint
    imitates. All FLOPs count in `spent`.
    """

    policy: Policy
    demonstrations: Mapping[Answers, Sequence[Demonstration]]
    validator: Validator
    chat: Chats
    terms: Terms
    seed: int
    progress: Progress = silent
    spent: float = 0.0

    def __post_init__(self) -> None:
        self.best, self.settings = Best(self.policy, self.validator), self.terms.usual
        self.budget, self.validation_flops = self.terms.flops or 0.0, self.terms.validation_flops or 0.0
        self._rows = {
            answers: [
                as_rollout(row, number)
                for number, row in enumerate(encode_demonstrations(self.policy, self.chat, shown, self.progress))
            ]
            for answers, shown in self.demonstrations.items()
        }
        self._shape = shape_of(self.policy.model)

    @property
    def answers(self) -> Answers:
        """Whose answers did best in validation; the first before anything was validated."""
        chosen = self.best.chosen
        return next(each for each in self.demonstrations if chosen is None or chosen.form == each)

    def answer_tokens(self) -> float:
        """Return the mean number of tokens after the prompt in these answers."""
        return fmean(row.completion_length for row in self._rows[self.answers])

    def run(self, learning_rate: float) -> None:
        """Try all answers at this learning rate, then other rates with the better ones, and train longest at the best.

        The best weights are then put into the policy. A budget too small for trials goes to one training at this
        learning rate for each kind of answers, of a step at least.
        """
        kinds = list(self.demonstrations)
        number = len(kinds) + len(FACTORS) - 1
        share = TRIALS / number * (self.budget - (number + CHECKS) * self.validation_flops)
        if min(self._steps_within(answers, share) for answers in kinds) >= FEWEST:
            for answers in kinds:
                self._train(answers, learning_rate, share, checks=1)
            for factor in FACTORS[1:]:
                self._train(self.answers, learning_rate * factor, share, checks=1)
            best = rate_after_trials(self.best.chosen, learning_rate)
            self._train(self.answers, best, self.budget - self.spent - CHECKS * self.validation_flops, checks=CHECKS)
        else:
            for left, answers in zip(range(len(kinds), 0, -1), kinds, strict=True):
                flops = (self.budget - self.spent) / left - self.validation_flops
                if left == len(kinds) or self._steps_within(answers, flops):
                    self._train(answers, learning_rate, flops, checks=1)
        self.best.restore()

    def _train(self, answers: Answers, learning_rate: float, flops: float, *, checks: int) -> None:
        """Train from the start for so many FLOPs, and validate as often as `checks` says, at equal distances.

        Training ends when a validation does not fit the budget any more, and not when validations bring no new best:
        while the learning rate falls the last steps gain most.
        """
        self.best.restart()
        steps = max(1, self._steps_within(answers, flops))
        costs = list(accumulate(islice(self._costs(answers), steps)))
        marks = {math.ceil(steps * number / checks) for number in range(1, checks + 1)}
        before, taken = self.spent, 0

        def checked(state: SftState) -> bool:
            nonlocal before, taken
            taken = state.steps
            if taken not in marks:
                return False
            self.spent = before + costs[taken - 1]
            paid = self.spent
            self.spent += self.best.validate(learning_rate, state.losses, form=answers)
            before += self.spent - paid
            further = costs[min(taken + steps // checks, steps) - 1]
            return before + further + self.validation_flops > self.budget

        warmup = min(self.settings.warmup_steps, steps // 4)
        changes = {"steps": steps, "learning_rate": learning_rate, "warmup_steps": warmup}
        try:
            train_sft(
                self.policy,
                self.demonstrations[answers],
                self.settings.model_copy(update=changes),
                seed=self.seed,
                decays=True,
                chat=self.chat,
                progress=self.progress,
                memory=ENOUGH if self.terms.training is None else Memory.of(self.terms.training),
                ends=checked,
            )
        except PolicyError as cause:
            logger.warning("learning rate %g is left out: %s", learning_rate, cause.what)
            self.spent = before + costs[min(taken, steps - 1)]
            self.best.candidates.append(Candidate(learning_rate, taken, None, form=answers))

    def _costs(self, answers: Answers) -> Iterator[float]:
        """Yield the FLOPs of each step of a training, without end."""
        rows, shares = self._rows[answers], self.policy.shares_prompts
        for batch in draw_batches(len(rows), self.settings.batch_size, self.seed):
            yield imitation_flops(self._shape, [rows[index] for index in batch], shares_prompts=shares)

    def _steps_within(self, answers: Answers, flops: float) -> int:
        """Return how many steps cost at most so many FLOPs and are at most `EPOCHS` epochs."""
        count = len(self._rows[answers])
        most = math.ceil(EPOCHS * count / min(self.settings.batch_size, count))
        return sum(1 for _ in takewhile(lambda spent: spent <= flops, accumulate(islice(self._costs(answers), most))))


def run_sft_control(policy: Policy, validator: Validator, terms: Terms, progress: Progress = silent) -> ControlReport:
    """Change `policy` in place to the best validated one of supervised fine-tuning on all demonstrations there are.

    Batch size, warm-up and the middle learning rate are those of the warm start. Demonstrations that the policy cannot
    be shown are left out; without any it stays as it is. Raises as `all_demonstrations` does.
    """
    environment, isolation = validator.environment, validator.sampling.harness.isolation
    chat, train = open_chats(policy, environment, isolation), validator.tasks.split("train")
    found = all_demonstrations(terms.warm_start, train, environment, isolation=isolation, progress=progress)
    # The run has trained by now: an answer that the policy cannot be shown must not end it.
    shown: dict[Answers, list[Demonstration]] = {
        answers: fitting for answers, some in found.items() if (fitting := that_fit(policy, chat, some))
    }
    if not shown:
        return Best(policy, validator).report(terms, 0.0, 0)
    search = Search(policy, shown, validator, chat, terms, validator.sampling.seed, progress)
    search.run(terms.middle_rate(policy))
    return search.best.report(
        terms,
        search.spent,
        len(search.demonstrations[search.answers]),
        answers=search.answers,
        answer_tokens=search.answer_tokens(),
    )
