"""Waits for the times of all schedules, on APScheduler, and starts a process for each that is due.

Its jobs are made from the files of the schedules, again and again, so that nothing is lost with this process, and none
of APScheduler's own stores is needed, which hold pickled objects. A job begins at the last look: APScheduler makes one
start of all due times since (`coalesce`). Whether that is a run, the process says that it starts, `rlft schedule run
NAME --once`: it holds the schedule's lock, whoever has started it.
"""

from __future__ import annotations

import logging
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from types import FrameType

from apscheduler.schedulers.background import BackgroundScheduler

from mlops.home.folder import LOGS, PROJECT, Home
from mlops.schedules.firing import rlft_command, rlft_environment
from mlops.schedules.store import all_schedules, folder_of, last_look, state_of
from rlft.errors import RlftError

logger = logging.getLogger(__name__)
LOOK_SECONDS = 10  # so soon a change of the schedules is seen
_LOGS = 100  # newest logs that are kept


class Scheduler:
    """The jobs of a home's schedules, and the processes that they have started."""

    def __init__(self, home: Home, names: Sequence[str] = ()) -> None:
        self._home, self._names = home, names
        self._begun: dict[str, subprocess.Popen[bytes]] = {}
        defaults = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        self.jobs = BackgroundScheduler(timezone=UTC, job_defaults=defaults)

    def run(self) -> int:
        """Start what is due at its time, until a signal ends this; returns the signal. The runs go on."""
        stop, caught = threading.Event(), list[int]()

        def handle(number: int, frame: FrameType | None) -> None:
            caught.append(number)
            stop.set()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handle)
        logging.getLogger("apscheduler").setLevel(logging.ERROR)  # it tells of every job
        self.jobs.add_job(self.refresh, "interval", seconds=LOOK_SECONDS, id="refresh", next_run_time=datetime.now(UTC))
        self.jobs.start()
        stop.wait()
        self.jobs.shutdown()
        return caught[-1]

    def refresh(self) -> None:
        """Make the jobs those of the schedules that are there now."""
        wanted = {}
        for each in all_schedules(self._home):
            if not (each.paused or each.cluster) and (not self._names or each.name in self._names):
                wanted[f"{each.name} {each.schedule.cron} {each.schedule.timezone} {each.since}"] = each
        there = {job.id for job in self.jobs.get_jobs()} - {"refresh"}
        for key in there - wanted.keys():
            self.jobs.remove_job(key)
        for key in wanted.keys() - there:
            stored = wanted[key]
            try:
                is_left, looked = state_of(self._home, stored.name).running, last_look(self._home, stored)
            except RlftError as error:
                logger.error("%s", error)
                continue
            trigger = stored.schedule.trigger
            begin = datetime.now(UTC) if is_left else trigger.get_next_fire_time(looked, looked)
            self.jobs.add_job(self.start, trigger, args=[stored.name], id=key, next_run_time=begin)
        for name, process in list(self._begun.items()):
            if (process.poll() or 0) < 0:  # it was killed, and its run may go on
                self.start(name)

    def start(self, name: str) -> None:
        """Start what looks after a schedule, unless that goes on: then it looks at what has become due meanwhile.

        It has a session of its own, so that Ctrl-C ends the scheduler alone.
        """
        if (process := self._begun.get(name)) is not None and process.poll() is None:
            return
        logs = folder_of(self._home) / LOGS
        logs.mkdir(parents=True, exist_ok=True)
        for old in sorted(logs.glob("*Z.log"), key=lambda file: file.stat().st_mtime)[:-_LOGS]:
            old.unlink(missing_ok=True)
        log = logs / f"{name}-{datetime.now(UTC):%Y-%m-%d-%H%M%SZ}.log"
        with log.open("ab") as output:
            self._begun[name] = subprocess.Popen(
                rlft_command("schedule", "run", name, "--once"),
                cwd=self._home.root,
                env=dict(os.environ) | rlft_environment(self._home, dict(os.environ)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        logger.info("%s is due: what comes of it is in %s", name, log)


def crontab_line(home: Home) -> str:
    """Return the line of a crontab that begins the scheduler of a home after each start of the machine."""
    logs = folder_of(home) / LOGS
    folder, made, log = (shlex.quote(str(path)) for path in (home.root, logs, logs / "scheduler.log"))
    call = shlex.join(["env", *_variables(home), *rlft_command("schedule", "run")])
    return f"@reboot cd {folder} && mkdir -p {made} && {call} >> {log} 2>&1".replace("%", r"\%")


def systemd_unit(home: Home) -> str:
    """Return a service that begins the scheduler of a home, and begins it again should it be killed."""
    variables = "\n".join(f"Environment={_quoted(each)}" for each in _variables(home))
    return f"""[Unit]
Description=rlft schedules of {_specified(str(home.root))}

[Service]
WorkingDirectory={_specified(str(home.root))}/
{variables}
ExecStart={" ".join(_quoted(word).replace("$", "$$") for word in rlft_command("schedule", "run"))}
KillMode=process
Restart=on-abnormal
RestartSec=60

[Install]
WantedBy=default.target
"""


def _variables(home: Home) -> list[str]:
    return [f"RLFT_HOME={home.root}", f"PYTHONPATH={PROJECT}"]


def _specified(text: str) -> str:
    """Return a path as systemd reads it. A `/` is to follow: a blank at the end or a backslash would mean something."""
    return text.replace("%", "%%")


def _quoted(text: str) -> str:
    """Return a word as systemd reads it: in quotes, and without its specifiers."""
    return '"' + _specified(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'
