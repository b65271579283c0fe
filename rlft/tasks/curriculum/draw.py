"""Draws the tasks of a round by their pass rates, or uniformly, and says why each of them was drawn."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rlft.config.training import RoundsConfig
from rlft.tasks.curriculum.epochs import other_tasks, tasks_by_shares, tasks_of_round
from rlft.tasks.curriculum.rates import Belief, PassRates, believe
from rlft.tasks.use.records import is_from_use
from rlft.types import Report, Task, TaskSet, derive_seed

Array = NDArray[Any]
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
    the first `tasks_per_round` are the round's, the next ones its reserves. Tasks that are retired come last.
    Tasks from use, of which little is known and which so would come most, have no larger share than they have in the
    split, where `tasks.use.max_share` bounds it. Those of several environments come by their `shares`, uniformly and
    without reserves (`rlft.config.several` refuses the rest). The draw follows from its arguments alone, so that a
    resumed run draws the same.
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
    noise = random.gumbel(size=len(train))
    keys = np.log([belief.learnability for belief in beliefs]) + noise
    order = _within_share(
        np.lexsort((-keys, retired)), np.array([is_from_use(task) for task in train]), random.random()
    )
    named = [_named(train[place], beliefs[place], rates, is_retired=bool(retired[place])) for place in order]
    # More tasks than there are: they come again, as those of uniform draws do.
    chosen = [named[place % len(named)] for place in range(count)]
    return Draw(round, "pass_rate", tuple(chosen), tuple(named[count : count + spare]), int(retired.sum()))


def _within_share(order: Array, from_use: Array, chance: float) -> list[int]:
    """Return an order in which the first n, for each n, have at most as large a share from use as all have.

    Places keep their order among those from use, and among the others. `chance` in [0, 1) rounds, so that in the mean
    over rounds the share is exact however few tasks a round has.
    """
    share = from_use.mean()
    used, others = (deque(int(place) for place in order if from_use[place] == kind) for kind in (True, False))
    rank = {int(place): number for number, place in enumerate(order)}
    found, taken = list[int](), 0
    while used or others:
        room = taken + 1 <= share * (len(found) + 1) + chance
        if used and (not others or (room and rank[used[0]] < rank[others[0]])):
            found.append(used.popleft())
            taken += 1
        else:
            found.append(others.popleft())
    return found


def _named(task: Task, belief: Belief, rates: PassRates, *, is_retired: bool) -> DrawnTask:
    why: Why = "learnability"
    if is_retired:
        why = "retired"
    elif task.id in rates.retired:
        why = "returned"
    elif belief.attempts == 0:
        why = "new"
    return DrawnTask(task.id, why, round(belief.mean, 6), round(belief.attempts, 6))
