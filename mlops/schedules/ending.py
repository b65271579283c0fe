"""Ends a firing: those are told who are to be, and what came of it is noted in a sentence."""

from __future__ import annotations

from mlops.schedules.firings import Firing
from mlops.schedules.notify import message, tell
from mlops.schedules.outcome import Outcome, events_of
from mlops.schedules.starting import forget_results, log_file
from mlops.schedules.store import Stored
from mlops.schedules.watching import Watch
from mlops.summary.summary import Summary


def end(watch: Watch, stored: Stored, firing: Firing, outcome: Outcome) -> None:
    """Tell what there is to tell of a firing that is `finished` or `failed`, and note that it is over.

    What was told is noted at once: a process that goes on after a kill tells at most one thing twice. Raises
    ScheduleGoneError.
    """
    watch.say(firing.said)
    told, problems = list(firing.told), list[str]()
    log = log_file(watch.home, firing)
    for event in events_of("failed" if firing.state == "failed" else "finished", outcome.summary):
        if event in stored.schedule.notify.events and event not in told:
            problems += tell(
                stored.schedule.notify,
                message(event, firing, outcome.summary, log if log.is_file() else None),
                stored.folder,
            )
            told.append(event)
            firing = watch.change(firing, told=told)
    said = "; ".join([firing.said, *dict.fromkeys(problems)])
    watch.change(firing, said=said, status=outcome.status, ended=watch.clock())
    forget_results(watch.home, firing)


def came_to(sentence: str, summary: Summary | None) -> str:
    """Return what came of a run: what its exit code means, and what its summary says."""
    if summary is None:
        return sentence
    if summary.error:
        return f"{sentence}: {summary.error}"
    parts = [sentence]
    if summary.status in ("improved", "not_improved"):
        parts.append(summary.status.replace("_", " "))
    if summary.promotion.version is not None:
        became = "passed, and was left for a person to approve"
        became = became if summary.promotion.approval == "pending" else "was not promoted"
        became = "became champion" if summary.promotion.promoted else became
        parts.append(f"version {summary.promotion.version} of {summary.promotion.name} {became}")
    return ", ".join(parts)
