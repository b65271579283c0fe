"""Scores one attempt: criterion by criterion, then what is missing of the essential ones.

Beside it stands how a specification writes a full answer (its template `gold`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlft.rewards.graders.plain import plain
from rlft.rewards.specification.grader import Attempt, Unmeasured, Unread, Verdict
from rlft.rewards.specification.model import GATE, Applies, Criterion, Specification
from rlft.rewards.specification.reading import PLACE, filled, value_of


def written_gold(template: str, attempt: Attempt) -> str:
    """Return the full answer to the task of an attempt, which says nothing.

    A template that is one place and no text is its value, as JSON unless it is a text. Within a template that is JSON
    the texts are filled in, so that an answer with quotes in it leaves it JSON. Raises TaskError for a column that the
    task's row has not.
    """
    if PLACE.fullmatch(template.strip()):
        value = value_of(template, attempt)
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    try:
        form = json.loads(template)
    except ValueError:
        return filled(template, attempt)
    return json.dumps(_written(form, attempt), ensure_ascii=False)


def _written(form: Any, attempt: Attempt) -> Any:
    if isinstance(form, dict):
        return {key: _written(each, attempt) for key, each in form.items()}
    if isinstance(form, list):
        return [_written(each, attempt) for each in form]
    return filled(form, attempt) if isinstance(form, str) else form


_NO = ("", "0", "0.0", "false", "no", "none", "null")  # as files without types write it


@dataclass(frozen=True, slots=True)
class Scored:
    """What one criterion came to: its grader's score and reason, and the score that counts, which a gate may lower.

    All are `None`, with a reason, where the criterion does not apply to the task. Where a judge was not asked, only the
    score that counts is known.
    """

    found: float | None
    counts: float | None
    why: str
    is_met: bool | None


_NO_MATTER = Scored(None, None, "it does not apply to this task", None)


async def score_attempt(specification: Specification, attempt: Attempt) -> dict[str, Scored]:
    """Return {criterion: what it came to}, in the order of the specification.

    An attempt that does not meet an essential criterion gets the lowest score in every criterion that pays, whatever
    its grader found; penalties and metrics stay as they are. So its total, the sum of its parts like any other, is the
    least that an attempt with the same penalties can have. Judges are asked last, and not for what an unmet criterion
    has decided already. Raises what a grader raises, which is an error of the rollout and never a 0.
    """
    criteria, found = specification.criteria, dict[str, Scored]()
    for name, each in sorted(criteria.items(), key=lambda item: item[1].grader.needs_judge):
        decided = each.weight > 0 and each.grader.needs_judge and _missing(criteria, found)
        found[name] = _not_asked(each, attempt, decided) if decided else await _score(each, attempt)
    missing = _missing(criteria, found)
    return {name: _gated(each, found[name], missing) if missing else found[name] for name, each in criteria.items()}


def parts_of(specification: Specification, scored: dict[str, Scored]) -> dict[str, float | None]:
    """Return {part: score} as a reward has them, with the metric `GATE` where a criterion is essential."""
    parts = {name: each.counts for name, each in scored.items()}
    if specification.has_gate:
        essential = [scored[name].is_met for name, each in specification.criteria.items() if each.essential]
        parts[GATE] = float(False not in essential)
    return parts


def applies(condition: Applies, attempt: Attempt) -> bool:
    """Return whether a criterion applies to the task of an attempt."""
    value = value_of(condition.when, attempt)
    if condition.any_of is None:
        return bool(value) and not (isinstance(value, str) and value.strip().casefold() in _NO)
    return plain(value) in map(plain, condition.any_of)


def _missing(criteria: Mapping[str, Criterion], found: Mapping[str, Scored]) -> list[str]:
    """Return the essential criteria that are known not to be met."""
    return [name for name, each in criteria.items() if each.essential and name in found and found[name].is_met is False]


def _not_asked(criterion: Criterion, attempt: Attempt, missing: list[str]) -> Scored:
    if criterion.applies is not None and not applies(criterion.applies, attempt):
        return _NO_MATTER
    return Scored(None, criterion.minimum, f"the judge was not asked: {_unmet(missing)}", None)


def _unmet(missing: list[str]) -> str:
    return f"{' and '.join(missing)} is essential and not met"


async def _score(criterion: Criterion, attempt: Attempt) -> Scored:
    if criterion.applies is not None and not applies(criterion.applies, attempt):
        return _NO_MATTER
    is_penalty = criterion.weight < 0
    try:
        verdict = await criterion.grader.grade(replace(attempt, is_penalised=True) if is_penalty else attempt)
    except Unmeasured as unknown:
        verdict = Verdict(criterion.maximum if is_penalty else criterion.minimum, str(unknown))
    except Unread as unread:
        verdict = Verdict(criterion.minimum, str(unread))
    return Scored(verdict.score, verdict.score, verdict.why, criterion.is_met(verdict.score))


def _gated(criterion: Criterion, scored: Scored, missing: list[str]) -> Scored:
    if criterion.weight <= 0 or scored.counts is None or scored.counts <= criterion.minimum:
        return scored
    why = f"{scored.why}, but {_unmet(missing)}"
    return Scored(scored.found, criterion.minimum, why, scored.is_met)
