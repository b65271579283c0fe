"""Whether there is a reason to run: what is now is compared with what was when the last run of the schedule began."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlops.schedules.settings import WhenConfig

LEVEL = 0.05  # chance of a run, before the next one or the next champion, although the score is not below its bound
_MOST_ERRORS = 0.05  # of the attempts: what these could have scored would matter


@dataclass(frozen=True, slots=True)
class Score:
    """What a model scored on fresh tasks: a mean with its 95 % interval over so many tasks.

    `groups` are the effective groups of tasks (0: as many as tasks), and `errors` is the share of the attempts without
    a score.
    """

    model: str
    mean: float
    low: float
    high: float
    tasks: int
    groups: float = 0.0
    errors: float = 0.0

    def at_most(self, level: float) -> float:
        """Return the upper bound of the mean at a one-sided level.

        It lies as many times further from the mean than the end of the 95 % interval as the quantiles of Student's t.
        """
        from scipy import stats

        freedom = max((self.groups or self.tasks) - 1, 1)
        further = float(stats.t.isf(level, freedom) / stats.t.isf(0.025, freedom))
        return self.mean + (self.high - self.mean) * further


@dataclass(frozen=True, slots=True)
class Looks:
    """How many scores of a model have been looked at since the last run, and the key of the last of them."""

    model: str = ""
    key: str = ""
    count: int = 0

    def with_another(self, model: str, key: str) -> Looks:
        """Return it with a look at a score; another model begins anew."""
        return Looks(model, key, self.count + 1 if model == self.model else 1)

    @property
    def level(self) -> float:
        """The one-sided level of the last of these looks: `LEVEL` / (k (k + 1)) for the k-th.

        These add up to `LEVEL` however many looks there are (alpha spending by the union bound), and the first has
        0.025, the level of a 95 % interval. It holds whether looks share tasks or not.
        """
        return LEVEL / (self.count * (self.count + 1))


@dataclass(frozen=True, slots=True)
class Facts:
    """What the reasons of a schedule are about.

    `tasks` are fingerprints of the content of train tasks, and `values` maps what may change (`file tasks.jsonl`, say)
    to what it is. `looks` are those at scores. What no reason asks for is empty.
    """

    tasks: frozenset[str] = frozenset()
    values: Mapping[str, str] = field(default_factory=dict)
    looks: Looks = Looks()


@dataclass(frozen=True, slots=True)
class Reason:
    """Whether there is one, and in a sentence which, or why there is none."""

    found: bool
    sentence: str


def should_run(when: WhenConfig, now: Facts, last: Facts | None) -> Reason:
    """Return the reason to run, if the score is left out, which takes long to know (`score_reason`).

    `last` is what was when the schedule's last run began; `None` if it has had none.
    """
    if when.is_always:
        return Reason(True, "it runs at every due time")
    if last is None:
        return Reason(True, "this schedule has not run before")
    said: list[str] = []
    if when.new_tasks is not None:
        count, least = len(now.tasks - last.tasks), when.new_tasks.at_least
        told = f"{count or 'no'} new train task{'s' * (count != 1)} since the last run"
        if count >= least:
            return Reason(True, told)
        said.append(f"{told}, and at_least is {least}" if count else told)
    if when.changed is not None:
        # What was added to the schedule's file meanwhile has no value of before, and is no change.
        if changed := [name for name, value in now.values.items() if last.values.get(name, value) != value]:
            return Reason(True, f"{' and '.join(changed)} changed since the last run")
        said.append(f"{', '.join(now.values)} {'is' if len(now.values) == 1 else 'are'} as at the last run")
    return Reason(False, "; ".join(said))


def score_reason(score: Score, bound: float, looks: Looks) -> Reason:
    """Return whether a score is a reason: it is shown to lie below the bound.

    `looks` are those since the last run, with this one; the more there were, the surer it has to be.
    """
    told = f"{score.model} scores {score.mean:.3f} [{score.low:.3f}, {score.high:.3f}] on {score.tasks} tasks"
    if score.errors > _MOST_ERRORS:
        return Reason(False, f"{told}, and {score.errors:.1%} of the attempts have no score: too many to tell")
    if (at_most := score.at_most(looks.level)) >= bound:
        surely = f"at most {at_most:.3f} at look {looks.count} at this model"
        return Reason(False, f"{told}, which is not shown to be below {bound:g}: {surely}")
    return Reason(True, f"{told}, below {bound:g}")
