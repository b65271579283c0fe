"""Waits for the times of all schedules, and starts a process for each that is due; prints what begins it by itself.

Whether a due time is a run, the process says that it starts, `rlft schedule run NAME --once`, and only one of a
schedule goes on at once. All that is known are the files of the schedules: nothing is lost with this process.
"""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from mlops.home.folder import PROJECT, SCHEDULES, Home
from mlops.schedules.firing import rlft_command, variables
from mlops.schedules.store import all_schedules, due_now, file_of, is_running, state_of

logger = logging.getLogger(__name__)
LOOK_SECONDS = 10  # so soon a due time and a change of the schedules are seen


def wait_and_start(home: Home, names: Sequence[str] = ()) -> None:
    """Start what is due at its time, of all schedules or of these, until an exception ends this. The runs go on."""
    while True:
        start_due(home, names)
        time.sleep(LOOK_SECONDS)


def start_due(home: Home, names: Sequence[str]) -> None:
    """Start what looks after each schedule that is due, or whose run was left by a process that is gone.

    Each process has a session of its own: Ctrl-C ends none. Of two of one schedule the second ends at once.
    """
    for stored in all_schedules(home):
        name, state = stored.name, state_of(home, stored.name)
        is_due = state.running is not None or due_now(stored, state, datetime.now(UTC)) is not None
        if (names and name not in names) or stored.schedule.paused or not is_due or is_running(home, name):
            continue
        log = file_of(home, name, ".log")
        with log.open("ab") as output:
            subprocess.Popen(
                rlft_command("schedule", "run", name, "--once"),
                env=dict(os.environ) | variables(home),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        logger.info("%s is due: what comes of it is in %s", name, log)


def crontab_line(home: Home) -> str:
    """Return the line of a crontab that begins the scheduler of a home after each start of the machine."""
    folder = home.root / SCHEDULES
    made, log = shlex.quote(str(folder)), shlex.quote(str(folder / "scheduler.log"))
    return f"@reboot mkdir -p {made} && {shlex.join(_call(home))} >> {log} 2>&1".replace("%", r"\%")


def systemd_unit(home: Home) -> str:
    """Return a service that begins the scheduler of a home, and begins it again should it be killed."""
    marks = str.maketrans({"\\": r"\\", '"': r"\"", "%": "%%", "$": "$$"})
    words = " ".join(f'"{word.translate(marks)}"' for word in _call(home))
    return f"""[Unit]
Description=rlft schedules

[Service]
ExecStart={words}
KillMode=process
Restart=on-abnormal
RestartSec=60

[Install]
WantedBy=default.target
"""


def _call(home: Home) -> list[str]:
    return ["/usr/bin/env", f"RLFT_HOME={home.root}", f"PYTHONPATH={PROJECT}", *rlft_command("schedule", "run")]
