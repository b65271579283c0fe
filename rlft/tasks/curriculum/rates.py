"""Pass rates by task: how often attempts solved a task, and what these say of the policy of a later round.

A task has few attempts behind it, so its rate p is not a share but a Beta posterior with a uniform prior: Beta(1 +
passes, 1 + failures). The policy changes from round to round, so an attempt counts half for each `half_life` rounds
that lie between the policy that made it and the one that is to draw. Such posteriors with such a discount are those of
arXiv:2507.04632 (MoPPS), which draws prompts of GRPO by them. Without new attempts a posterior goes back to the prior.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from rlft.types import Report, Reward

Evidence = tuple[float, float, int]
"""Passes and failures, as they counted in the round of this number."""


@dataclass(frozen=True, slots=True)
class Belief:
    """What is believed of the rate p at which the policy of a round solves a task: Beta(`alpha`, `beta`)."""

    alpha: float = 1.0
    beta: float = 1.0

    @property
    def mean(self) -> float:
        """The expected pass rate, in (0, 1)."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def attempts(self) -> float:
        """How many attempts it rests on; each counts 1 when it is made and less later."""
        return self.alpha + self.beta - 2

    @property
    def learnability(self) -> float:
        """The expected variance of a right-or-wrong reward, E[p (1 - p)], in (0, 1/4).

        p (1 - p) is called learnability (arXiv:2408.15099; for language models arXiv:2502.12272). Under Beta(a, b) its
        mean is a b / ((a + b) (a + b + 1)): 1/6 for a task that was never tried, and nearly 0 for one that is always
        or never solved.
        """
        total = self.alpha + self.beta
        return self.alpha * self.beta / (total * (total + 1))


@dataclass(frozen=True, slots=True)
class PassRates(Report):
    """The attempts of the run itself, {task id: evidence}, and the tasks that are taken for solved (`retired`)."""

    passing: ClassVar[frozenset[str]] = frozenset()
    own: dict[str, Evidence] = field(default_factory=dict)
    retired: tuple[str, ...] = ()


def count_passes(rewards: Iterable[Reward]) -> dict[str, tuple[int, int]]:
    """Return {task id: (passes, failures)} of scored attempts. One without a score is neither: that is no failure."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for reward in rewards:
        if reward.total is not None:
            found[reward.task_id][0 if reward.solved else 1] += 1
    return {task: (passes, failures) for task, (passes, failures) in found.items()}


def believe(task: str, rates: PassRates, *, round: int, half_life: float) -> Belief:
    """Return what is believed of a task for the policy of a round (from 0)."""
    passes, failures, noted = rates.own.get(task, (0.0, 0.0, round))
    own = _weight(round - noted, half_life)
    return Belief(1 + own * passes, 1 + own * failures)


def note_round(
    rates: PassRates, rewards: Iterable[Reward], *, round: int, half_life: float, retire_at: float
) -> PassRates:
    """Return the rates with the attempts of a round, and with the tasks retired that are expected to be solved now.

    A task is retired when its mean pass rate is at least `retire_at`, and no longer when an attempt shows otherwise.
    """
    own, retired = dict(rates.own), set(rates.retired)
    found = count_passes(rewards)
    for task, (passes, failures) in found.items():
        before = own.get(task, (0.0, 0.0, round))
        weight = _weight(round - before[2], half_life)
        own[task] = (weight * before[0] + passes, weight * before[1] + failures, round)
    noted = PassRates(own)
    for task in found:
        belief = believe(task, noted, round=round, half_life=half_life)
        (retired.add if belief.mean >= retire_at else retired.discard)(task)
    return PassRates(own, tuple(sorted(retired)))


def _weight(rounds: float, half_life: float) -> float:
    return 0.5 ** (rounds / half_life)
