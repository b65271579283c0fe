"""Brings a firing to its end: its reason, its run, and as many other tries as its schedule allows.

What was left of it by a process that was killed is brought to its end in the same way, from what that had noted.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import count

from mlops.schedules import store
from mlops.schedules.ending import came_to, end
from mlops.schedules.firings import GIVEN_UP, Firing, Try, change
from mlops.schedules.judging import Judged, LookFailedError, judge
from mlops.schedules.outcome import Outcome, outcome_of
from mlops.schedules.starting import forget_result, resume_command, run_command, run_name, summary_file
from mlops.schedules.store import Stored
from mlops.schedules.watching import ScheduleGoneError, Watch
from rlft.schedule.tries import Next, after_try

_PAUSED = "the schedule was paused before a run began"
_NOTHING = Outcome(None, None, has_begun=False)


def settle(watch: Watch, firing: Firing, lock: int) -> None:
    """Bring a firing to its end, all of it or what is left, under the lock of its schedule.

    It is left as it is if a signal asks this process to end. Raises ScheduleGoneError.
    """
    stored, is_new = watch.stored(firing), not firing.tries
    if firing.state in ("finished", "failed"):  # it had ended, and not all were told
        end(watch, stored, firing, _outcome(watch, stored, firing))
        return
    if is_new and stored.paused and firing.origin == "clock":
        watch.change(firing, state="skipped", said=_PAUSED, ended=watch.clock())
        return
    if is_new:
        begun = _begin(watch, stored, firing, lock)
        if begun is None:
            return
        firing = begun
    _try_until_over(watch, stored, firing, lock, is_due=is_new)


def _begin(watch: Watch, stored: Stored, firing: Firing, lock: int) -> Firing | None:
    """Look for a reason, and note that the run begins; `None` if it does not."""
    firing = watch.change(firing, state="looking")
    judged = _judged(watch, stored, firing, lock)
    if watch.is_ended:
        return None
    if isinstance(judged, str):
        failed = watch.change(firing, state="failed", said="; ".join(filter(None, [firing.said, judged])))
        end(watch, stored, failed, _NOTHING)
        return None
    if not judged.reason.found:
        said = f"no reason to run: {judged.reason.sentence}"
        watch.say(said)
        watch.change(firing, state="no_reason", said=said, ended=watch.clock())
        return None
    watch.say(f"a run begins: {judged.reason.sentence}")
    return _note_beginning(watch, firing, judged)


def _judged(watch: Watch, stored: Stored, firing: Firing, lock: int) -> Judged | str:
    """Return whether there is a reason, or why that could not be found out, after as many tries as a run has."""
    for tries in count(1):
        try:
            return judge(watch, stored, firing, lock)
        except LookFailedError as error:
            follows = after_try(error.code, tries, stored.schedule.retries)
            if follows.what != "again" or watch.is_ended:
                return str(error)
            watch.say(f"{error}; it is tried again in {follows.wait_seconds / 60:.0f} min")
            watch.wait_until(watch.clock() + timedelta(seconds=follows.wait_seconds))
            if watch.signals.caught:
                return str(error)
    raise AssertionError("the tries are bounded")


def _note_beginning(watch: Watch, firing: Firing, judged: Judged) -> Firing:
    """Note the run and what is now in one transaction, so that no other run can have this reason."""
    first = Try(run_name(firing), store.as_text(watch.clock()))
    forget_result(watch.home, firing, 1)
    with store.opened(watch.home) as opened:
        if judged.facts is not None:
            store.keep_facts(opened, firing.schedule, judged.facts)
        found = change(opened, firing.id, state="running", reason=judged.reason.sentence, tries=[first])
    if found is None:
        raise ScheduleGoneError
    return found


def _try_until_over(watch: Watch, stored: Stored, firing: Firing, lock: int, *, is_due: bool) -> None:
    """Run the last try of a firing if it `is_due`, find out what came of it, and try again as long as that helps."""
    has_begun = False
    while True:
        if is_due:
            firing = _run(watch, stored, firing, lock, resume=has_begun)
            if watch.is_ended:
                watch.change(firing, said="it was ended with the process that looked after it, and will go on")
                return
        outcome = _outcome(watch, stored, firing)
        if outcome.code is None:  # it was noted, and killed before it began
            if _is_held_back(watch, stored, firing):
                return
            is_due = True
            continue
        follows = after_try(outcome.code, len(firing.tries), stored.schedule.retries, hopeless=outcome.is_hopeless)
        if follows.what == "again":
            again = _wait_for_next(watch, firing, follows)
            if watch.is_ended:
                return
            if isinstance(again, Firing):
                firing, has_begun, is_due = again, outcome.has_begun, True
                continue
            follows = again
        said = came_to(follows.sentence, outcome.summary)
        end(watch, stored, watch.change(firing, state=follows.what, said=said), outcome)
        return


def _is_held_back(watch: Watch, stored: Stored, firing: Firing) -> bool:
    """Note that a run which had not begun does not, if nobody waits for it or its schedule is paused; else `False`."""
    if firing.origin == "person":
        watch.change(firing, state="cut_short", said=GIVEN_UP, ended=watch.clock())
    elif stored.paused:
        watch.change(firing, state="skipped", said=_PAUSED, ended=watch.clock())
    else:
        return False
    return True


def _run(watch: Watch, stored: Stored, firing: Firing, lock: int, *, resume: bool) -> Firing:
    """Run the last try, and note its exit code."""
    last = firing.tries[-1]
    summary = summary_file(watch.home, firing, len(firing.tries))
    summary.parent.mkdir(parents=True, exist_ok=True)
    command = resume_command(stored, last.run, summary) if resume else run_command(stored, firing, last.run, summary)
    code = watch.call(command, stored.folder, lock)
    return watch.change(firing, tries=[*firing.tries[:-1], Try(last.run, last.began, code)])


def _outcome(watch: Watch, stored: Stored, firing: Firing) -> Outcome:
    """Return what came of the last try."""
    if not firing.tries:
        return _NOTHING
    file = summary_file(watch.home, firing, len(firing.tries))
    return outcome_of(watch.home, firing.tries[-1], file, stored.schedule.stack)


def _wait_for_next(watch: Watch, firing: Firing, follows: Next) -> Firing | Next:
    """Wait for the next try and note that it begins, or return why there is none."""
    # A process that goes on with what another one has left waits no longer than that one would have.
    moment = (firing.not_before if firing.state == "waiting" else None) or (
        watch.clock() + timedelta(seconds=follows.wait_seconds)
    )
    said = f"{follows.sentence}, and is tried again"
    watch.say(f"{said} at {moment:%Y-%m-%d %H:%M} UTC")
    firing = watch.change(firing, state="waiting", said=said, not_before=moment)
    watch.wait_until(moment)
    if watch.signals.caught:
        return Next("failed", f"{follows.sentence}, and is not tried again, since this was interrupted")
    if watch.stored(firing).paused:
        return Next("failed", f"{follows.sentence}, and is not tried again, since the schedule is paused")
    following = Try(firing.tries[-1].run, store.as_text(watch.clock()))
    forget_result(watch.home, firing, len(firing.tries) + 1)
    return watch.change(firing, state="running", not_before="", tries=[*firing.tries, following])
