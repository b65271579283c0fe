"""Canaries: the attempts of a specification's cases, by which a judge that has changed under its name is noticed.

The first time a judge meets a canary it is asked several times, which says how well it repeats itself. What it gave is
kept; later it is asked once, and twice more where that lies beyond what repeating explains.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median

from rlft.errors import RewardError
from rlft.files import write_file
from rlft.rewards.cases import inline_task, trajectory
from rlft.rewards.judges.answers import Answers, key_of
from rlft.rewards.judges.chat_judge import RULES, ChatJudge
from rlft.rewards.judges.servers import weights_of
from rlft.rewards.rubric import TOLERANCE
from rlft.rewards.specification.grader import Attempt, Helpers, Unread, item_of
from rlft.rewards.specification.judge import Bill, JudgeSettings, pay_by
from rlft.rewards.specification.model import Specification
from rlft.rewards.specification.scoring import applies
from rlft.types import Judging

REPEATS = 5
"""How often a judge is asked about a canary that it has not met."""
_CONFIRMED = 3  # answers in all, of which the middle one counts, before a judge is said to have changed
_SHOWN = 5  # canaries that an error names


@dataclass(frozen=True, slots=True)
class Canary:
    """A criterion that a judge decides, at the attempt of a case. `key` is a hash of all that its score depends on."""

    case: int
    criterion: str
    reason: str
    key: str

    def __str__(self) -> str:
        return f"case {self.case} ({self.reason}), criterion {self.criterion!r}"


@dataclass(frozen=True, slots=True)
class Met:
    """What a judge said of a canary: `was` when it met it, on `since` (ISO 8601), and `now` if that is later.

    It has changed if the middle one of `now` is further from all of `was` than the latter are from each other.
    """

    canary: Canary
    was: tuple[float, ...]
    since: str
    now: tuple[float, ...] = ()

    @property
    def has_changed(self) -> bool:
        """Whether what it says now lies beyond what repeating explains."""
        low, high = min(self.was), max(self.was)
        beyond = high - low + TOLERANCE
        return bool(self.now) and not low - beyond <= median(self.now) <= high + beyond

    def __str__(self) -> str:
        was = f"{fmean(self.was):.3g}, between {min(self.was):.3g} and {max(self.was):.3g} in {len(self.was)} answers"
        return f"{self.canary} was {was}, and is {median(self.now):.3g}"


def meet_canaries(specification: Specification, helpers: Helpers, folder: Path) -> tuple[list[Met], Judging | None]:
    """Ask the judge of a specification about its canaries, and return what it said, and what that took.

    The canaries are the cases that name no task, at each criterion that asks the judge and applies. What it says is
    never taken from the votes that are kept; what it said at first is kept in `folder`. `helpers` are those of the
    graders. Raises RewardError where the judge gives no answer, and as OSError what cannot be written.
    """
    if specification.judge is None:
        return [], None
    judge, bill = ChatJudge(specification.judge, Answers(None, most=0)), Bill()
    asking = replace(helpers, judge=judge)

    async def meet() -> list[Met]:
        pay_by(bill)
        found = _canaries(specification, asking)
        return [await _meet(specification, canary, attempt, folder) for canary, attempt in found]

    return asyncio.run(meet()), bill.total


def check_unchanged(met: Sequence[Met], settings: JudgeSettings) -> None:
    """Raise RewardError if a judge has changed: it names the canaries, with what they were and are."""
    changed = [each for each in met if each.has_changed]
    if not changed:
        return
    more = f"; and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    raise RewardError(
        f"the judge {settings.model} at {settings.place} does not score as it did: "
        f"{'; '.join(map(str, changed[:_SHOWN]))}{more}",
        where="reward.spec: judge",
        fix="name the version of the model that it was; or, if you accept the judge as it is, set judge.version to "
        "another text and start another run: then everything is asked again, and its canaries are measured anew",
    )


def _canaries(specification: Specification, helpers: Helpers) -> list[tuple[Canary, Attempt]]:
    settings, found = specification.judge, list[tuple[Canary, Attempt]]()
    judged = {name: each for name, each in specification.criteria.items() if each.grader.needs_judge()}
    for number, case in enumerate(specification.cases, start=1):
        if case.task is not None or settings is None:
            continue
        task = inline_task(case)
        attempt = Attempt(trajectory(case.attempt, task), item_of(task), helpers)
        for name, criterion in judged.items():
            if criterion.applies is None or applies(criterion.applies, attempt):
                weights = weights_of(settings)
                scoring = {
                    "judge": {**settings.scoring(), **({"weights": weights} if weights else {})},
                    "rules": RULES,
                    "grader": criterion.grader.model_dump(mode="json"),
                }
                key = key_of({**scoring, "attempt": case.attempt, "item": case.item})
                found.append((Canary(number, name, case.reason, key), attempt))
    return found


async def _meet(specification: Specification, canary: Canary, attempt: Attempt, folder: Path) -> Met:
    file = folder / "canaries" / f"{canary.key}.json"
    known = _read(file)
    if known is None:
        was = [await _score(specification, canary, attempt) for _ in range(REPEATS)]
        met = Met(canary, tuple(was), datetime.now(UTC).isoformat(timespec="seconds"))
        write_file(file, json.dumps({**asdict(canary), "scores": was, "since": met.since}, indent=1))
        return met
    met = Met(canary, *known, now=(await _score(specification, canary, attempt),))
    while met.has_changed and len(met.now) < _CONFIRMED:
        met = replace(met, now=(*met.now, await _score(specification, canary, attempt)))
    return met


async def _score(specification: Specification, canary: Canary, attempt: Attempt) -> float:
    criterion = specification.criteria[canary.criterion]
    try:
        return (await criterion.grader.grade(attempt)).score
    except Unread:
        return criterion.minimum
    except Exception as cause:  # whatever a grader raises
        raise RewardError(
            f"{canary} has no score, by which a judge that has changed would be noticed: {cause}",
            where="reward.spec: judge",
            fix="`rlft reward validate` runs the case; see whether the judge is up",
        ) from cause


def _read(file: Path) -> tuple[tuple[float, ...], str] | None:
    """Return the scores and their time; `None` where there are none. Raises RewardError for what cannot be read."""
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        if not (scores := tuple(float(each) for each in stored["scores"])):
            raise ValueError("there is no score")
        return scores, str(stored["since"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as cause:
        raise RewardError(
            f"what the judge said at first cannot be read, so that a change would not be noticed: {cause}",
            where=str(file),
            fix="put it back, or remove it: then the judge is measured anew as it is",
        ) from cause
