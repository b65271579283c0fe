"""Whether there is a reason to run: what is now is compared with what was when the last run of the schedule began."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rlft.schedule.settings import ScheduleConfig, WhenConfig


@dataclass(frozen=True, slots=True)
class Score:
    """What a model scored on fresh tasks: a mean with its 95 % interval over so many tasks.

    `key` is the same exactly if the model and the tasks are.
    """

    key: str
    model: str
    mean: float
    low: float
    high: float
    tasks: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What the reasons of a schedule are about.

    `tasks` are fingerprints of the content of train tasks, and `values` maps what may change (`file tasks.jsonl`, say)
    to what it is. `score_key` is that of the score that was a reason. What no reason asks for is empty.
    """

    tasks: frozenset[str] = frozenset()
    values: Mapping[str, str] = field(default_factory=dict)
    score_key: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """Whether there is one, and in a sentence which, or why there is none."""

    found: bool
    sentence: str


def find_reason(when: WhenConfig, now: Facts, last: Facts | None) -> Reason:
    """Return the reason to run, if the score is left out, which takes long to know (`score_reason`).

    `last` is what was when the schedule's last run began; `None` if it has had none.
    """
    if when.is_always:
        return Reason(True, "it runs at every due time")
    if last is None:
        return Reason(True, "this schedule has not run before")
    said: list[str] = []
    for found in (_new_tasks(when, now, last), _changed(when, now, last)):
        if found is not None and found.found:
            return found
        said += [found.sentence] if found is not None else []
    return Reason(False, "; ".join(said))


def _new_tasks(when: WhenConfig, now: Facts, last: Facts) -> Reason | None:
    if when.new_tasks is None:
        return None
    count, least = len(now.tasks - last.tasks), when.new_tasks.at_least
    told = f"{_counted(count, 'new train task')} since the last run"
    if count >= least:
        return Reason(True, f"there {'is' if count == 1 else 'are'} {told}")
    return Reason(False, f"no {told}" if not count else f"{told}, and at_least is {least}")


def _changed(when: WhenConfig, now: Facts, last: Facts) -> Reason | None:
    if when.changed is None:
        return None
    # What was added to the schedule's file meanwhile has no value of before, and is no change.
    changed = [name for name, value in now.values.items() if last.values.get(name, value) != value]
    if changed:
        return Reason(True, f"{' and '.join(changed)} changed since the last run")
    return Reason(False, f"{', '.join(now.values)} {'is' if len(now.values) == 1 else 'are'} as at the last run")


def score_reason(score: Score, bound: float, last: Facts | None) -> Reason:
    """Return whether a score is a reason: it is shown to lie below the bound, and was none for an earlier run."""
    told = f"{score.model} scores {score.mean:.3f} [{score.low:.3f}, {score.high:.3f}] on {score.tasks} tasks"
    if score.high >= bound:
        return Reason(False, f"{told}, which is not shown to be below {bound:g}")
    if was_reason(score.key, last):
        return Reason(False, same_score(score.model))
    return Reason(True, f"{told}, below {bound:g}")


def was_reason(key: str, last: Facts | None) -> bool:
    """Return whether the score of the same model on the same tasks was a reason already."""
    return last is not None and last.score_key == key


def same_score(model: str) -> str:
    """Return the sentence of a score that was a reason already."""
    return f"the score of {model} on the same tasks was the reason of an earlier run"


def remembered(schedule: ScheduleConfig, now: Facts, last: Facts | None, score: Score | None) -> Facts:
    """Return what the next look compares with, if a run begins now.

    The score that was a reason stays one until another is: so that each is the reason of one run.
    """
    key = score.key if score is not None else (last.score_key if last is not None else "")
    return Facts(now.tasks, dict(now.values), key if schedule.when.score_below is not None else "")


def _counted(count: int, noun: str) -> str:
    return f"{noun}s" if not count else f"{count} {noun}" if count == 1 else f"{count} {noun}s"
