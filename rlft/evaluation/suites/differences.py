"""How two models of one call differ, paired by task, and what to say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from rlft.evaluation.comparison import compare
from rlft.types import Evaluation


@dataclass(frozen=True, slots=True)
class Pair:
    """`second` minus `first` on one split of a cell, in one metric, with its 95 % interval over groups of tasks.

    `low` and `high` count attempts without a score against and in favour of the second model. `tasks` were scored for
    both, and `errors` counts the attempts of both without a score. All numbers are `None` if no task was scored for
    both.
    """

    cell: str
    split: str
    metric: str
    first: str
    second: str
    before: float | None = None
    after: float | None = None
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    tasks: int = 0
    groups: int = 0
    errors: int = 0

    @property
    def sentence(self) -> str:
        """What the interval says, in one plain sentence."""
        where = f"On {self.cell} ({self.split})"
        if self.mean is None or self.low is None or self.high is None:
            return f"{where} no task has a score for both {self.first} and {self.second}."
        interval = f"95 % interval {self.low:+.3f} to {self.high:+.3f}, {self.tasks} tasks"
        if self.errors:
            interval += f", {self.errors} attempts without a score counted both ways"
        if self.low > 0 or self.high < 0:
            which = "better" if self.low > 0 else "worse"
            return (
                f"{where} {self.second} is {which} than {self.first}: {self.metric} {self.after:.3f} against "
                f"{self.before:.3f}, difference {self.mean:+.3f} ({interval})."
            )
        return (
            f"{where} it cannot be told which of {self.first} and {self.second} is better: {self.metric} "
            f"{self.before:.3f} and {self.after:.3f}, {self.second} minus {self.first} {self.mean:+.3f} ({interval})."
        )


def compare_models(evaluations: Mapping[str, Mapping[str, Evaluation]], metric: str) -> list[Pair]:
    """Return all pairs of models on every split; `evaluations` are {cell: {model: evaluation}}.

    The intervals are those of single comparisons: with many pairs some exclude zero by chance.
    """
    return [
        _pair(cell, split, metric, first, second, models)
        for cell, models in evaluations.items()
        for first, second in combinations(models, 2)
        for split in models[first].splits
        if split in models[second].splits
    ]


def _pair(cell: str, split: str, metric: str, first: str, second: str, models: Mapping[str, Evaluation]) -> Pair:
    ours, theirs = models[second].splits[split], models[first].splits[split]
    both = metric in ours.per_task and metric in theirs.per_task
    found = compare(ours, theirs, metric) if both else None
    if found is None:
        return Pair(cell, split, metric, first, second)
    return Pair(
        cell=cell,
        split=split,
        metric=metric,
        first=first,
        second=second,
        before=found.before,
        after=found.after,
        mean=found.difference.mean,
        low=found.low_with_errors,
        high=found.high_with_errors,
        tasks=found.difference.count,
        groups=found.difference.groups,
        errors=found.errors,
    )
