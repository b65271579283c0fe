"""Waits for the time, on APScheduler: looks at what is due, and starts a process for each firing.

The jobs are made from the store at every look, so nothing is lost with this process. Several may look at one store:
which of them makes a firing is decided there, and which process looks after it, too.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import FrameType
from typing import Any

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.interval import IntervalTrigger

from mlops.home.folder import Home
from mlops.runtime.signals import SIGNALS
from mlops.schedules import store
from mlops.schedules.firings import Firing, claim_due, end_given_up, unfinished
from mlops.schedules.starting import environment, log_file, rlft_command
from mlops.schedules.store import Stored
from mlops.schedules.watch import carry_out
from mlops.schedules.watching import Watch
from rlft.errors import RlftError, StorageError
from rlft.schedule.cron import read_cron
from rlft.schedule.times import next_due

logger = logging.getLogger(__name__)
LOOK_SECONDS = 10  # so soon a change of the schedules, and a firing that nobody looks after, are seen
# So long after its start a process that ended too soon is not started again; twice as long after each further one.
_AGAIN_SECONDS, _LONGEST_AGAIN_SECONDS = 60.0, 3600.0
_LOGS = 100  # newest logs that are kept


class DueTrigger(BaseTrigger):
    """The due times of a schedule, as APScheduler asks for them."""

    def __init__(self, stored: Stored) -> None:
        self._cron, self._zone = read_cron(stored.schedule.cron), stored.schedule.zone

    def get_next_fire_time(  # type: ignore[override]  # the base class says that it returns nothing
        self, previous_fire_time: datetime | None, now: datetime
    ) -> datetime | None:
        """Return the next due time after the previous one, or after now."""
        return next_due(self._cron, self._zone, max(previous_fire_time or now, now))


class Processes:
    """The processes that look after firings, which this one has started."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._begun: dict[int, tuple[subprocess.Popen[bytes], float]] = {}  # and until when it is not started again
        self._starts: Counter[int] = Counter()

    def begin(self, firing: Firing) -> bool:
        """Start a process for a firing, unless one goes on, or has just ended; returns whether it was started.

        It has a session of its own, so that Ctrl-C ends the scheduler alone.
        """
        process, quiet_until = self._begun.get(firing.id, (None, 0.0))
        if process is not None and (process.poll() is None or time.monotonic() < quiet_until):
            return False
        log = log_file(self._home, firing)
        log.parent.mkdir(parents=True, exist_ok=True)
        for old in sorted(log.parent.glob("*.log"), key=lambda file: file.stat().st_mtime)[:-_LOGS]:
            old.unlink(missing_ok=True)
        with log.open("ab") as output:
            process = subprocess.Popen(
                rlft_command("schedule", "carry-out", str(firing.id)),
                cwd=self._home.root,
                env=environment(self._home),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        pause = min(_AGAIN_SECONDS * 2 ** min(self._starts[firing.id], 10), _LONGEST_AGAIN_SECONDS)
        self._starts[firing.id] += 1
        self._begun[firing.id] = process, time.monotonic() + pause
        return True


def look(home: Home, now: datetime, names: Sequence[str] = ()) -> list[Firing]:
    """Note what is due now, and return the firings that no process looks after, the oldest first.

    `names` are the schedules that are looked at; without any all are.
    """
    with store.opened(home, make=False) as opened:
        known = store.all_schedules(opened)
        for stored in _chosen(known, names):
            if (firing := claim_due(opened, stored, now)) is not None:
                logger.info(
                    "%s is due: %s", stored.name, f"{firing.due.astimezone(stored.schedule.zone):%Y-%m-%d %H:%M}"
                )
        end_given_up(opened, "", now)
        usable = {stored.name for stored in known}
        left = [firing for firing in unfinished(opened) if firing.schedule in usable]
    return [firing for firing in left if (not names or firing.schedule in names) and not firing.is_watched]


def _chosen(found: list[Stored], names: Sequence[str]) -> list[Stored]:
    return [stored for stored in found if not names or stored.name in names]


def look_once(watch: Watch, names: Sequence[str]) -> list[Firing]:
    """Look at what is due now, and look after it in this process; returns what came of it."""
    found = [carry_out(watch, firing.id) for firing in look(watch.home, watch.clock(), names)]
    return [firing for firing in found if firing is not None]


def wait_for_times(
    home: Home, names: Sequence[str] = (), *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> int:
    """Look at what is due at its time, until a signal ends this; returns the signal. The runs go on.

    Raises StorageError when the home is there no more, or another one in its place.
    """
    processes, stop, caught = Processes(home), threading.Event(), list[int]()
    place = _place(home)
    scheduler = BackgroundScheduler(timezone=UTC, job_defaults={"coalesce": True, "misfire_grace_time": None})
    logging.getLogger("apscheduler").setLevel(logging.ERROR)  # it tells of every look that takes long

    def look_now() -> None:
        if place is None or _place(home) != place:
            stop.set()
            return
        try:
            for firing in look(home, clock(), names):
                if processes.begin(firing):
                    logger.info("%s: what comes of it is in %s", firing.schedule, log_file(home, firing))
            _set_jobs(scheduler, look_now, home, names)
        except (RlftError, OSError) as error:  # a full disk, say: the next look may find it better
            logger.error("%s", error)

    def handle(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        stop.set()

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
    every = IntervalTrigger(seconds=LOOK_SECONDS, timezone=UTC)
    scheduler.add_job(look_now, every, id="look", next_run_time=datetime.now(UTC), max_instances=1)
    scheduler.start()
    stop.wait()
    scheduler.shutdown(wait=True)
    if caught:
        return caught[-1]
    fix = "give `rlft schedule run` again where it is now (RLFT_HOME names it); runs that had begun go on"
    raise StorageError("this home was moved away or removed, and its schedules with it", where=str(home.root), fix=fix)


def _place(home: Home) -> tuple[int, int] | None:
    """Return what tells a home's folder from another one at its path; `None` if there is none."""
    try:
        found = home.root.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _set_jobs(scheduler: Any, job: Callable[[], None], home: Home, names: Sequence[str]) -> None:
    """Make the jobs those of the schedules that are there now, so that each is looked at when it is due."""
    from apscheduler.jobstores.base import JobLookupError

    with store.opened(home, make=False) as opened:
        found = {f"{each.name} {each.applied}": each for each in _chosen(store.all_schedules(opened), names)}
    wanted = {name: each for name, each in found.items() if not each.paused and not each.cluster}
    there = {each.id for each in scheduler.get_jobs()} - {"look"}
    for name in wanted.keys() - there:
        scheduler.add_job(job, DueTrigger(wanted[name]), id=name, max_instances=1)
    for name in there - wanted.keys():
        with suppress(JobLookupError):  # it has no due time any more
            scheduler.remove_job(name)
