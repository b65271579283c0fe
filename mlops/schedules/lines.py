"""What keeps `rlft schedule run` going from the start of a machine on: a line for a crontab, a unit for systemd."""

from __future__ import annotations

import shlex

from mlops.clone import PROJECT
from mlops.home.folder import LOGS, Home
from mlops.schedules.firing import rlft_command
from mlops.schedules.store import folder_of


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
