"""Looks after one firing, from its reason to its end, while no other run of its schedule goes on.

Everything is noted before it is done. So whatever ends this process, another one goes on where it stopped: the run that
was going on is waited for, and is not begun a second time.
"""

from __future__ import annotations

from contextlib import suppress

from mlops.schedules import store
from mlops.schedules.firings import Firing, end_given_up, read_firing, release, take, unfinished
from mlops.schedules.lock import schedule_lock
from mlops.schedules.settling import settle
from mlops.schedules.variables import with_variables
from mlops.schedules.watching import PAUSE_SECONDS, ScheduleGoneError, Watch


def carry_out(watch: Watch, number: int) -> Firing | None:
    """Look after a firing until it is over, and return it; `None` if another process does, or it was deleted.

    Firings of the schedule that were left before it are brought to their end first.
    """
    with store.opened(watch.home) as opened:
        end_given_up(opened, "", watch.clock())
        firing = take(opened, number)
    if firing is None:
        return None
    with suppress(ScheduleGoneError), with_variables(watch.home, firing.schedule):
        while not watch.is_ended:
            with schedule_lock(watch.home, firing.schedule, lambda: _wait(watch, number)) as lock:
                if lock is None:
                    break
                if _settle_earlier(watch, firing, lock):
                    settle(watch, firing, lock)
                    break
            if not _wait(watch, number):
                break
    with store.opened(watch.home) as opened:
        release(opened)
        return read_firing(opened, number)


def _wait(watch: Watch, number: int) -> bool:
    """Wait a moment while another run of the schedule goes on, if the firing may; returns whether to go on waiting."""
    if watch.is_ended:
        return False
    with store.opened(watch.home) as opened:
        firing = read_firing(opened, number)
        if firing is None:  # the schedule was deleted
            return False
        overlap = store.find(opened, firing.schedule).schedule.overlap
        waits = [other for other in unfinished(opened, firing.schedule) if other.state == "queued"]
    if firing.tries or firing.state == "queued":
        watch.pause(PAUSE_SECONDS)
        return True
    if firing.origin == "clock" and (overlap == "skip" or waits):
        said = "another run of this schedule went on" + (", and one waited for it" if waits else "")
        watch.say(said)
        watch.change(firing, state="skipped", said=said, ended=watch.clock())
        return False
    watch.change(firing, state="queued")
    watch.say("another run of this schedule goes on; this one waits for it")
    return True


def _settle_earlier(watch: Watch, firing: Firing, lock: int) -> bool:
    """Bring to an end what was left before; returns whether nothing is left that another process looks after."""
    with store.opened(watch.home) as opened:
        end_given_up(opened, firing.schedule, watch.clock())
        earlier = [take(opened, each.id) for each in unfinished(opened, firing.schedule, before=firing.id)]
    for each in earlier:
        if each is None:
            return False
        watch.say(f"the run that was due {each.due:%Y-%m-%d %H:%M} UTC was cut short, and goes on")
        settle(watch, each, lock)
    return not watch.is_ended
