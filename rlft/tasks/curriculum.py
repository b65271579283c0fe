"""Chooses the train tasks of a round, by their pass rates or uniformly in epochs, with the reason of each.

A task has few attempts behind it, so its rate p is not a share but a Beta posterior with a uniform prior: Beta(1 +
passes, 1 + failures). The policy changes from round to round, so an attempt counts half for each `half_life` rounds
that lie between the policy that made it and the one that is to draw. Such posteriors with such a discount are those of
arXiv:2507.04632 (MoPPS), which draws prompts of GRPO by them. Without new attempts a posterior goes back to the prior.
Of several environments each has epochs of its own, and a place in a round as often as its share says.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, gcd, lcm
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from rlft.config.section import Section
from rlft.config.training import RoundsConfig
from rlft.tasks.splits import is_from_use, sample_tasks
from rlft.types import Report, Reward, Split, Task, TaskSet, derive_seed

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


Why = Literal["uniform", "new", "learnability", "returned", "retired"]


@dataclass(frozen=True, slots=True)
class DrawnTask:
    """A task that was drawn, and why.

    `uniform`: every task is drawn as often as any other; `new`: nothing is known of it; `learnability`: in proportion
    to the expected p (1 - p); `returned`: it was taken for solved, and that is long ago; `retired`: it is taken for
    solved, and too few others were left. `pass_rate` is the expected one, and `attempts` how many it rests on (each
    counts less the older it is); they are `None` and 0 where tasks are drawn uniformly.
    """

    task_id: str
    why: Why
    pass_rate: float | None = None
    attempts: float = 0.0

    def reason(self) -> str:
        """Return why it was drawn, in a few words."""
        if self.pass_rate is None or self.why == "new":
            return self.why
        return f"{self.why}: expected pass rate {self.pass_rate:.2f} from {self.attempts:.1f} attempts"


@dataclass(frozen=True, slots=True)
class Draw(Report):
    """The tasks of a round, those that may replace them, in this order, and how many are retired."""

    passing: ClassVar[frozenset[str]] = frozenset()
    round: int
    curriculum: str
    tasks: tuple[DrawnTask, ...]
    reserves: tuple[DrawnTask, ...] = ()
    retired: int = 0

    def metrics(self) -> dict[str, float]:
        """Return how many of the round's tasks were drawn for which reason, by name; nothing of a uniform draw."""
        if self.curriculum == "uniform":
            return {}
        whys = [task.why for task in self.tasks]
        expected = [task.pass_rate for task in self.tasks if task.pass_rate is not None]
        return {
            "curriculum/expected_pass_rate": float(np.mean(expected)),
            "curriculum/new": float(whys.count("new")),
            "curriculum/returned": float(whys.count("returned")),
            "curriculum/retired": float(self.retired),
        }


def is_plain(settings: RoundsConfig) -> bool:
    """Return whether a round is its epoch's next tasks, none of which is replaced: nothing then depends on rewards."""
    return settings.curriculum == "uniform" and settings.max_num_gen_batches == 1


def draw_round(
    task_set: TaskSet,
    settings: RoundsConfig,
    *,
    round: int,
    seed: int,
    rates: PassRates | None = None,
    shares: Mapping[str, float] | None = None,
) -> Draw:
    """Draw the train tasks of a round (from 0). No other split is ever drawn from.

    With `curriculum: pass_rate` tasks are drawn without replacement in proportion to their learnability, by the keys of
    Efraimidis and Spirakis (2006, doi:10.1016/j.ipl.2005.11.003) in their logarithmic form, log weight + Gumbel noise:
    the first `tasks_per_round` are the round's, the next ones its reserves. Tasks that are retired come last. A round
    has no larger share of tasks from use than the train tasks, rounded up.
    Those of several environments come by their `shares`, uniformly and without reserves (`rlft.config.experiment`
    refuses the rest). The draw follows from its arguments alone, so that a resumed run draws the same.
    """
    if shares is not None:
        drawn = tasks_by_shares(task_set, shares, round=round, count=settings.tasks_per_round, seed=seed)
        return Draw(round, "uniform", tuple(DrawnTask(task.id, "uniform") for task in drawn))
    count, spare = settings.tasks_per_round, settings.tasks_per_round * (settings.max_num_gen_batches - 1)
    if settings.curriculum == "uniform":
        drawn = tasks_of_round(task_set, round=round, count=count, seed=seed)
        others = other_tasks(task_set, drawn, round=round, count=spare, seed=seed)
        first, more = (tuple(DrawnTask(task.id, "uniform") for task in each) for each in (drawn, others))
        return Draw(round, "uniform", first, more)
    train, rates = task_set.split("train"), rates or PassRates()
    half_life, retire_at = settings.pass_rates.half_life, settings.pass_rates.retire_at
    beliefs = [believe(task.id, rates, round=round, half_life=half_life) for task in train]
    retired = np.array([belief.mean >= retire_at for belief in beliefs])
    random = np.random.default_rng(derive_seed(seed, "curriculum", round))
    keys = np.log([belief.learnability for belief in beliefs]) + random.gumbel(size=len(train))
    order = _with_little_use(np.lexsort((-keys, retired)).tolist(), train, count)
    named = [_named(train[place], beliefs[place], rates, is_retired=bool(retired[place])) for place in order]
    # More tasks than there are: they come again, as those of uniform draws do.
    chosen = [named[place % len(named)] for place in range(count)]
    return Draw(round, "pass_rate", tuple(chosen), tuple(named[count : count + spare]), int(retired.sum()))


def _with_little_use(order: list[int], train: Sequence[Task], count: int) -> list[int]:
    """Return the places of train tasks with those from use last that are more than their share of `count` tasks."""
    used = [place for place in order if is_from_use(train[place])]
    late = set(used[ceil(count * len(used) / len(train)) :])
    return sorted(order, key=late.__contains__)


def _named(task: Task, belief: Belief, rates: PassRates, *, is_retired: bool) -> DrawnTask:
    why: Why = "learnability"
    if is_retired:
        why = "retired"
    elif task.id in rates.retired:
        why = "returned"
    elif belief.attempts == 0:
        why = "new"
    return DrawnTask(task.id, why, round(belief.mean, 6), round(belief.attempts, 6))


def tasks_of_round(task_set: TaskSet, *, round: int, count: int, seed: int) -> tuple[Task, ...]:
    """Return `count` train tasks for a round (from 0), in epochs that each have an order of their own.

    They follow from (seed, round) alone, so that a resumed run takes the tasks it would have taken. An epoch ends when
    too few tasks are left for a round: so a round never holds a task twice, unless `count` exceeds the train split.
    """
    train = task_set.split("train")
    epoch, place = divmod(round, max(len(train) // count, 1))
    order = np.random.default_rng(derive_seed(seed, "epoch", epoch)).permutation(len(train))
    chosen = np.resize(order, max(count, len(order)))[place * count : (place + 1) * count]
    return tuple(train[index] for index in chosen)


def other_tasks(task_set: TaskSet, drawn: Sequence[Task], *, round: int, count: int, seed: int) -> tuple[Task, ...]:
    """Return up to `count` train tasks that are not `drawn` in this round, in a random order of this round's own."""
    known = {task.id for task in drawn}
    others = [task for task in task_set.split("train") if task.id not in known]
    order = np.random.default_rng(derive_seed(seed, "resample", round)).permutation(len(others))
    return tuple(others[index] for index in order[:count])


def tasks_by_shares(
    task_set: TaskSet, shares: Mapping[str, float], *, round: int, count: int, seed: int
) -> tuple[Task, ...]:
    """Return `count` train tasks for a round (from 0), of each environment in `shares` in proportion to its share.

    After any number of tasks, over all rounds, each environment has had its share to within one task. Its tasks come in
    epochs that each have an order of their own, and none comes twice in a round that has at most half of them. They
    follow from the arguments alone, so that a resumed run takes the tasks it would have taken.
    """
    before, turns = turns_of(shares, round * count, count)
    train = {name: [task for task in task_set.split("train") if task.environment == name] for name in shares}
    drawn = Counter(turns)
    total = sum(shares.values())
    coming = {
        # A round has fewer than two tasks more of an environment than its share, so `apart` holds one round's.
        name: iter(_stretch(train[name], before[name], drawn[name], ceil(count * share / total) + 1, name, seed))
        for name, share in shares.items()
        if drawn[name]
    }
    return tuple(next(coming[name]) for name in turns)


def turns_of(shares: Mapping[str, float], first: int, count: int) -> tuple[Counter[str], list[str]]:
    """Return how often each name had its turn in the first `first` turns, and whose the next `count` turns are.

    This is the chairman assignment of Tijdeman (1980, doi:10.1016/0012-365X(80)90269-1): of the names that may have a
    turn without getting ahead of their share, the one that would fall behind first. After any number n of turns a name
    with the share p has had n p of them to within 1 - 1 / (2 k - 2), for k names.
    """
    weights = _whole_numbers(shares)
    period = sum(weights.values())  # after which everyone has had exactly the share, and all begins again
    periods, skipped = divmod(first, period)
    had, turns = dict.fromkeys(weights, 0), list[str]()
    spare = 2 * len(weights) - 2
    for turn in range(1, skipped + count + 1):
        behind = {name: weight * turn - period * had[name] for name, weight in weights.items()}  # times the period
        may = [name for name in weights if spare * behind[name] >= period]
        name = min(may, key=lambda name: Fraction(period * (spare - 1) - spare * behind[name], weights[name]))
        had[name] += 1
        turns.append(name)
    before = Counter(turns[:skipped])
    return Counter({name: periods * weight + before[name] for name, weight in weights.items()}), turns[skipped:]


def _whole_numbers(shares: Mapping[str, float]) -> dict[str, int]:
    """Return the smallest whole numbers in these proportions; a share of 0.3 is three tenths."""
    exact = {name: Fraction(repr(share)) for name, share in shares.items()}
    common = lcm(*(each.denominator for each in exact.values()))
    whole = {name: int(each * common) for name, each in exact.items()}
    return {name: each // gcd(*whole.values()) for name, each in whole.items()}


def _stretch(train: list[Task], first: int, count: int, apart: int, name: str, seed: int) -> list[Task]:
    """Return the tasks in the places [first, first + count) of an environment's epochs, one after the other.

    The last `apart` tasks of an epoch come last in the next one, too, so that no stretch of as many has a task twice,
    if there are twice as many tasks.
    """
    epochs, found, late = -(-(first + count) // len(train)), list[int](), set[int]()
    for epoch in range(epochs):
        order = np.random.default_rng(derive_seed(seed, "epoch", name, epoch)).permutation(len(train)).tolist()
        order.sort(key=lambda place: place in late)
        late = set(order[len(order) - min(apart, len(order) // 2) :])
        if (epoch + 1) * len(train) > first:
            found += order
    begins = first - (first // len(train)) * len(train)
    return [train[place] for place in found[begins : begins + count]]


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
