"""Which gates are the same, and how strict a decision must be that is one of several on the same tasks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlft.types import Task

_FALSE = 0.05  # the chance that one of all looks promotes a model that is no better
_ONE_SIDED = 0.025  # of a single look it is no more than this: that of a 95 % interval
_DIGITS = 8
SKETCH = 540  # hashes of a gate that are kept: they fit into one tag of MLflow, which older servers cut at 5,000


@dataclass(frozen=True, slots=True)
class Look:
    """One decision on the tasks of a gate: its `number`, from 1, and what all looks so far have `spent`, this included.

    What is spent is a share of the chance of 5 % that they have in common: 1 / looks of each, by the `promotion.looks`
    that it was decided with.
    """

    number: int = 1
    spent: float = 1.0

    @property
    def is_allowed(self) -> bool:
        """Whether the chance of 5 % is not overspent."""
        return self.spent <= 1 + 1e-9  # twenty times 1/20 add up to a little more than 1


FIRST_LOOK = Look()


def task_hash(task: Task) -> str:
    """Return eight hexadecimal digits of what a task asks and what is right: its prompt and answer."""
    content = json.dumps([task.prompt, task.answer], sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]


def gate_id(tasks: Iterable[Task]) -> str:
    """Return 16 hexadecimal digits by which a gate is known: those of all its tasks, in any order."""
    return hashlib.sha256("".join(sorted(map(task_hash, tasks))).encode()).hexdigest()[:16]


def sketch(tasks: Iterable[Task]) -> str:
    """Return the `SKETCH` smallest hashes of a gate's tasks, one after the other: all of them, or a random sample."""
    return sketch_of(map(task_hash, tasks))


def sketch_of(hashes: Iterable[str]) -> str:
    """Return the `sketch` of tasks by their hashes."""
    return "".join(sorted(set(hashes))[:SKETCH])


def shared(ours: str, theirs: str) -> float:
    """Return the share, 0 to 1, of the tasks of one gate that are in another one, by their sketches.

    It is exact up to `SKETCH` tasks each. Beyond, it is estimated from the hashes that both sketches reach (Beyer et
    al. 2007, SIGMOD), with a standard error of at most 2 points.
    """
    a, b = _hashes(ours), _hashes(theirs)
    if not a or not b:
        return 0.0
    reached = min((kept[-1] for kept in (a, b) if len(kept) == SKETCH), default=max(a[-1], b[-1]))
    among = [each for each in a if each <= reached]
    return len(set(among) & set(b)) / len(among) if among else 0.0


def is_same_gate(ours: str, theirs: str) -> bool:
    """Return whether more than half of the tasks of `ours` were in `theirs`: a decision then is one more look."""
    return shared(ours, theirs) > 0.5


def confidence_at(looks: int) -> float:
    """Return the two-sided confidence of each of so many looks at one gate.

    The lower bound of each is wrong with a chance of at most 0.05 / looks, so that of series of so many models that are
    no better at most 5 % contain a promotion (Bonferroni). It is never below 0.95.

    >>> from rlft.gates import confidence_at
    >>> confidence_at(20)
    0.995
    """
    return 1 - 2 * min(_ONE_SIDED, _FALSE / looks)


def _hashes(kept: str) -> Sequence[str]:
    return [kept[place : place + _DIGITS] for place in range(0, len(kept), _DIGITS)]
