"""What every check reads and answers: the curves of a run, whether they show more than chance, and what is found.

A check asks here before it accuses a run. Each question is answered wrongly with probability `LEVEL` at most, an upper
bound is too low with `LEVEL_OF_BOUND`. Whoever asks the same question again and again, as monitors do while a run goes
on, asks at a lower `level`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy.special import betaincinv, stdtrit

from rlft.evaluation.comparison import compare
from rlft.types import EvaluationReport, TrainReport

GUIDE = "docs/guide/diagnosis.md"


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause by its name, a sentence with its numbers, and another that says which settings to change, and how."""

    cause: str
    what: str
    remedy: str

    @property
    def text(self) -> str:
        """Both sentences, and where the guide explains them."""
        return f"{self.what} {self.remedy} More: {self.link}"

    @property
    def link(self) -> str:
        """The place in the guide that explains the cause: its heading there, as GitHub writes it in an address."""
        return f"{GUIDE}#{self.cause.lower().replace(' ', '-')}"


LEVEL = 0.01  # of each one-sided question
LEVEL_OF_BOUND = 0.05
_EXACT = 10  # numbers up to which ties are broken, as the normal approximation is poor for so few


def passes(share: float, bound: float, groups: float, level: float = LEVEL) -> bool:
    """Return whether a share in [0, 1] lies above `bound` beyond chance, if it is that of so many independent groups.

    The exact lower bound of a binomial share (Clopper & Pearson 1934) is compared. Attempts at one task resemble each
    other, so that n groups of G attempts are taken to say no more than n attempts: where they resemble each other less,
    fewer runs are accused than `level` allows.
    """
    if groups <= 0 or share <= bound:
        return False
    found = share * groups
    return bool(betaincinv(found, groups - found + 1, level) >= bound)


def enough_to_see(share: float) -> int:
    """Return of how many independent groups at least one shows what a share of them has, but for a chance of `LEVEL`.

    None of n shows it with probability (1 - share)^n.
    """
    return math.ceil(math.log(LEVEL) / math.log(1 - share))


def rises(curve: Sequence[float], level: float = LEVEL) -> bool:
    """Return whether a curve rises by more than chance: Mann's test against trend (Kendall's tau with the time).

    It knows the order of the numbers alone, so it holds for noise of any distribution, as long as that is the same in
    every round and independent: of noise with a correlation of 0.6 from one round to the next 10 % pass, not 1 %. Up to
    ten numbers it is exact, with equal ones counted as falling. Fewer than five never pass, as even the rarest of all
    4! orders comes about by chance in 4 %.
    """
    values = np.asarray(curve, dtype=np.float64)
    if len(values) < 2 or not np.isfinite(values).all() or (values == values[0]).all():
        return False
    times = np.arange(len(values))
    if len(values) <= _EXACT:
        values = np.argsort(np.lexsort((-times, values)))  # of equal numbers the earlier one becomes the higher one
    from scipy import stats  # takes half a second to load

    _, chance = np.asarray(stats.kendalltau(times, values, alternative="greater"))
    return bool(chance <= level)


def falls(curve: Sequence[float], level: float = LEVEL) -> bool:
    """Return whether a curve falls by more than chance, as `rises` tests it."""
    return rises([-each for each in curve], level)


def drifts(curve: Sequence[float], level: float = LEVEL) -> bool:
    """Return whether a curve rises or falls by more than chance; either has half of `level`."""
    return rises(curve, level / 2) or falls(curve, level / 2)


def largest_rise(curve: Sequence[float], level: float = LEVEL_OF_BOUND) -> float:
    """Return an upper bound of how much a curve has risen from its first to its last number, but for noise.

    It is that of the slope of a straight line (Student's t, one-sided at `level`), and infinite with fewer than four
    numbers.
    """
    if len(curve) < 4:
        return math.inf
    values, times = np.asarray(curve, dtype=np.float64), np.arange(len(curve)) - (len(curve) - 1) / 2
    spread = float(np.sum(times**2))
    slope = float(np.sum(times * values)) / spread
    left = values - values.mean() - slope * times
    error = math.sqrt(float(np.sum(left**2)) / (len(curve) - 2) / spread)
    return (slope + float(stdtrit(len(curve) - 2, 1 - level)) * error) * (len(curve) - 1)


@dataclass(frozen=True, slots=True)
class History:
    """What is known of the rounds of a run.

    `rounds` are the reports of training, in their order. `validations` are reports on the split `validation` after so
    many rounds, from 0, and `metric` is what models are compared by. `train_tasks` is how many tasks there are to train
    on. `num_generations` and `learning_rate` are settings of training, `max_completion_length` (tokens) is one of
    sampling. `improved` is whether the test split shows that the trained policy is better, which validation may be too
    small for. `honest` names the part of the reward that says what counts, if
    the config names one. `level` is the chance with
    which each question about these curves may be answered wrongly.
    """

    rounds: Sequence[TrainReport]
    validations: Mapping[int, EvaluationReport]
    metric: str
    train_tasks: int
    num_generations: int
    learning_rate: float
    max_completion_length: int
    improved: bool = False
    honest: str = ""
    level: float = LEVEL

    @property
    def counted(self) -> str:
        """The metric of reports that says what counts: the honest part's, else the share of solved attempts."""
        return f"rewards/{self.honest}" if self.honest else "accuracy"

    @property
    def counted_in_rounds(self) -> str:
        """The same metric of rounds."""
        return f"rewards/{self.honest}/mean" if self.honest else "accuracy"

    @property
    def counted_in_words(self) -> str:
        """What counts, as a sentence names it."""
        return f"`{self.honest}`, which says what counts," if self.honest else "the share of solved attempts"

    def curve(self, name: str) -> list[float]:
        """Return a metric of the rounds that have it."""
        return [report.metrics[name] for report in self.rounds if name in report.metrics]

    def mean(self, name: str) -> float | None:
        """Return the mean of a metric over all rounds; `None` if no round has it."""
        return fmean(found) if (found := self.curve(name)) else None

    def change(self, name: str) -> tuple[float, float] | None:
        """Return the means of a metric over the first and over the last third of the rounds; `None` below 3 rounds."""
        curve = self.curve(name)
        third = len(curve) // 3
        return (fmean(curve[:third]), fmean(curve[-third:])) if third else None

    def groups(self, rounds: int | None = None) -> float:
        """Return how many groups of attempts were sampled in all rounds, or in the first ones."""
        return sum(len(report.fates) for report in self.rounds[:rounds]) / self.num_generations

    def passed(self, name: str, bound: float) -> bool:
        """Return whether the mean of a share over all rounds lies above `bound` beyond chance (by groups)."""
        share = self.mean(name)
        return share is not None and passes(share, bound, self.groups(), self.level)

    def parts(self) -> list[str]:
        """Return the names of the reward's parts that some round has scored, if there are several.

        A single part is the reward itself.
        """
        metrics = dict.fromkeys(name for report in self.rounds for name in report.metrics)
        names = [name.split("/")[1] for name in metrics if name.startswith("rewards/") and name.endswith("/mean")]
        return names if len(names) > 1 else []

    def scored_validations(self) -> list[tuple[int, EvaluationReport]]:
        """Return (rounds before it, report) of each validation with scores, in their order."""
        return [(number, self.validations[number]) for number in sorted(self.validations) if self._has_scores(number)]

    def has_risen(self) -> bool:
        """Return whether the test split shows a gain, or some validation is measurably better than the first one."""
        return self.improved or self.validation_has_risen()

    def validation_has_risen(self) -> bool:
        """Return whether some validation is measurably better than the first one, on the same tasks."""
        if not self.validations or not self._has_scores(min(self.validations)):
            return False
        first, *later = [report for _, report in self.scored_validations()]
        # Each of so many looks has its share of the chance of 5 % (Bonferroni), so that noise does not hide a cause.
        confidence = 1 - 0.05 / max(1, len(later))
        found = [compare(report, first, self.metric, confidence=confidence) for report in later]
        return any(each is not None and each.exceeds(0) for each in found)

    def validation_has_risen_and_stays(self) -> bool:
        """Return whether validation has risen, and the last one is measurably worse than none before."""
        if not self.validation_has_risen():
            return False
        *earlier, last = [report for _, report in self.scored_validations()]
        confidence = 1 - 0.05 / max(1, len(earlier))  # all looks for a loss share the chance of 5 %
        losses = [compare(last, report, self.metric, confidence=confidence) for report in earlier]
        return not any(each is not None and each.high_with_errors < 0 for each in losses)

    def _has_scores(self, number: int) -> bool:
        return bool(self.validations[number].per_task.get(self.metric))
