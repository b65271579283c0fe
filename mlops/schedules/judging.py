"""Whether a firing has a reason: a look in a process of its own, and an evaluation if only the score is left to ask."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlops.schedules import store
from mlops.schedules.facts import Look, look_of, score_in
from mlops.schedules.firings import Firing
from mlops.schedules.starting import rlft_command
from mlops.schedules.store import Stored, folder_of
from mlops.schedules.watching import Watch
from rlft.errors import RlftError
from rlft.schedule.reasons import (
    Facts,
    Reason,
    Score,
    find_reason,
    remembered,
    same_score,
    score_reason,
    was_reason,
)


class LookFailedError(Exception):
    """It could not be found out whether there is a reason; `code` is the exit code of what should have."""

    def __init__(self, what: str, code: int, content: dict[str, Any] | None) -> None:
        why = str((content or {}).get("error") or "its log says why")
        super().__init__(f"{what} could not be found out (exit code {code}): {why}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Judged:
    """Whether there is a reason, and what the next look compares with if a run begins."""

    reason: Reason
    facts: Facts | None


def judge(watch: Watch, stored: Stored, firing: Firing, lock: int) -> Judged:
    """Return whether there is a reason to run. Raises LookFailedError if that cannot be found out."""
    schedule, asked_for = stored.schedule, Reason(True, "a person asked for it")
    is_asked = firing.origin == "person"
    if schedule.when.is_always:
        return Judged(asked_for if is_asked else find_reason(schedule.when, Facts(), None), Facts())
    with store.opened(watch.home) as opened:
        last = store.last_facts(opened, stored.name)
    try:
        found = _look(watch, stored, firing, lock)
    except LookFailedError:
        if not is_asked:
            raise
        return Judged(asked_for, None)
    reason = asked_for if is_asked else find_reason(schedule.when, found.facts, last)
    score = None
    if not reason.found and schedule.when.score_below is not None:
        by_score, score = _by_score(watch, stored, firing, lock, found, last)
        told = "; ".join(filter(None, [reason.sentence, by_score.sentence]))
        reason = by_score if by_score.found else Reason(False, told)
    return Judged(reason, remembered(schedule, found.facts, last, score))


def _look(watch: Watch, stored: Stored, firing: Firing, lock: int) -> Look:
    file = _file(watch, firing, "look")
    file.unlink(missing_ok=True)
    code = watch.call(rlft_command("schedule", "look", stored.name, "--to", str(file)), stored.folder, lock)
    content = _read(file)
    if code or content is None:
        raise LookFailedError("whether there is a reason", code, content)
    file.unlink(missing_ok=True)
    return look_of(content)


def _by_score(
    watch: Watch, stored: Stored, firing: Firing, lock: int, found: Look, last: Facts | None
) -> tuple[Reason, Score | None]:
    """Return whether the score is a reason, and the score if it is; nothing is evaluated that cannot be one."""
    asked = stored.schedule.when.score_below
    assert asked is not None
    if not found.model:
        return Reason(False, found.missing), None
    if was_reason(found.score_key, last):
        return Reason(False, same_score(found.model)), None
    file = _file(watch, firing, "score")
    file.unlink(missing_ok=True)
    stack = ["--stack", stored.schedule.stack] if stored.schedule.stack is not None else []
    command = rlft_command("evaluate", found.model, "--suite", asked.suite, "--summary", str(file), *stack)
    code = watch.call(command, stored.folder, lock)
    content = _read(file)
    if code or content is None:
        raise LookFailedError(f"the score of {found.model}", code, content)
    try:
        score = score_in(content, found, asked.split)
    except RlftError as error:
        return Reason(False, error.what), None
    last = last or Facts()
    looks = last.looks.with_another(score.model, score.key)
    with store.opened(watch.home) as opened:  # now, as a look without a reason counts, too
        store.keep_facts(opened, stored.name, replace(last, looks=looks))
    reason = score_reason(score, asked.bound, last, looks)
    return reason, score if reason.found else None


def _file(watch: Watch, firing: Firing, what: str) -> Path:
    folder = folder_of(watch.home) / "results"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{firing.id}-{what}.json"


def _read(file: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
