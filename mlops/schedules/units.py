"""Files for systemd and lines for cron that look at a schedule when it is due.

Both call `rlft schedule run NAME --once`, which decides by the store what is due: so a schedule does the same whatever
wakes it, and one that is woken by several things has one run all the same.
"""

from __future__ import annotations

import hashlib
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from mlops.clone import PROJECT
from mlops.home.folder import Home
from mlops.schedules.starting import cron_log_file, rlft_command
from mlops.schedules.store import Stored
from rlft.errors import ConfigError, RlftError
from rlft.schedule.cron import WEEKDAYS, Cron, read_cron
from rlft.schedule.times import is_same_clock

_LONGEST_LINE = 998  # characters of a line that cron takes
_QUARTERS = (0, 15, 30, 45)


def unit_name(home: Home, name: str) -> str:
    """Return what the units of a schedule are called; those of another home's schedule of this name are others."""
    return f"rlft-{name}-{_mark_of(home)}"


def systemd_units(home: Home, stored: Stored) -> dict[str, str]:
    """Return the texts of the service and of the timer by the names of their files.

    Raises ConfigError for a folder whose name no unit can hold.
    """
    _check_paths(home, stored)
    command = " ".join(map(_quoted, _command(stored)))
    service = f"""[Unit]
Description=rlft schedule {stored.name}

[Service]
Type=oneshot
WorkingDirectory={_specified(str(stored.folder))}/
Environment={_quoted(f"RLFT_HOME={home.root}", "%")}
Environment={_quoted(f"PYTHONPATH={PROJECT}", "%")}
ExecStart={command}
TimeoutStopSec=60
"""
    timer = f"""[Unit]
Description=when rlft schedule {stored.name} is due

[Timer]
OnCalendar={calendar(read_cron(stored.schedule.cron), stored.schedule.timezone)}
# What was missed, and a run that was cut short, are seen after a start of the machine.
Persistent=true
OnStartupSec=2min
AccuracySec=1s

[Install]
WantedBy=timers.target
"""
    name = unit_name(home, stored.name)
    return {f"{name}.service": service, f"{name}.timer": timer}


def calendar(cron: Cron, timezone: str) -> str:
    """Return due times as systemd writes them, such as `Mon *-*-* 04:00:00 Europe/Berlin`."""
    weekdays = "" if cron.is_any_weekday else ",".join(WEEKDAYS[day].title() for day in cron.weekdays) + " "
    months = "*" if len(cron.months) == 12 else _two(cron.months)
    days = "*" if cron.is_any_day else _two(cron.days)
    hours = "*" if cron.is_every_hour else _two(cron.hours)
    minutes = "*" if len(cron.minutes) == 60 else _two(cron.minutes)
    return f"{weekdays}*-{months}-{days} {hours}:{minutes}:00 {timezone}"


def cron_lines(home: Home, stored: Stored, machine_zone: str) -> list[str]:
    """Return the lines of a crontab: when it is due, and after a start of the machine, for what was missed.

    cron knows the machine's own time zone alone. For one with another clock the line looks every quarter of an hour,
    or as often as the schedule's minutes ask for: every zone is whole quarters of an hour from every other. Raises
    ConfigError if a path is too long for a line.
    """
    _check_paths(home, stored)
    cron, schedule = read_cron(stored.schedule.cron), stored.schedule
    fields = _fields(cron)
    if not is_same_clock(machine_zone, schedule.zone, stored.applied):
        minutes = sorted({(minute + quarter) % 60 for minute in cron.minutes for quarter in _QUARTERS})
        fields = f"{_short(minutes, 0, 59)} * * * *"
    paths = (stored.folder, home.root, PROJECT, cron_log_file(home, stored))
    folder, root, path, log = (shlex.quote(str(each)) for each in paths)
    call = (
        f"cd {folder} && RLFT_HOME={root} PYTHONPATH={path} {shlex.join(_command(stored))} >> {log} 2>&1 "
        f"{_mark(home, stored.name)}"
    )
    lines = [f"{when} {call}".replace("%", r"\%") for when in (fields, "@reboot")]
    if len(lines[0]) > _LONGEST_LINE:
        fix = "install it with --systemd, or use `rlft schedule run`"
        raise ConfigError("the paths are too long for a line of cron", where=str(stored.folder), fix=fix)
    return lines


def install_cron(home: Home, stored: Stored, lines: Sequence[str]) -> None:
    """Put the lines of a schedule into this user's crontab, in the place of those that it has. Raises RlftError."""
    kept = [line for line in _crontab() if not _is_of(line, home, stored.name)]
    done = subprocess.run(
        ["crontab", "-"], input="\n".join([*kept, *lines]) + "\n", text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise RlftError(f"crontab refused the lines: {done.stderr.strip()}", where="crontab", fix="see `crontab -l`")


def installed_in_cron(home: Home, name: str) -> bool:
    """Return whether this user's crontab has lines of a schedule."""
    try:
        return any(_is_of(line, home, name) for line in _crontab())
    except RlftError:
        return False


def units_folder() -> Path:
    """Return where systemd looks for the units of this user."""
    return Path.home() / ".config" / "systemd" / "user"


def _crontab() -> list[str]:
    try:
        done = subprocess.run(["crontab", "-l"], text=True, capture_output=True, check=False)
    except OSError as cause:
        fix = "install cron, or use --systemd or `rlft schedule run`"
        raise RlftError(f"crontab cannot be run: {cause.strerror}", where="--cron", fix=fix) from cause
    if done.returncode and "no crontab" not in done.stderr:
        raise RlftError(f"crontab ended with: {done.stderr.strip()}", where="crontab", fix="see `crontab -l`")
    return done.stdout.splitlines() if not done.returncode else []


def _command(stored: Stored) -> list[str]:
    return rlft_command("schedule", "run", stored.name, "--once")


def _mark(home: Home, name: str) -> str:
    return f"# rlft schedule {name} of {_mark_of(home)}"


def _mark_of(home: Home) -> str:
    return hashlib.sha256(str(home.root).encode()).hexdigest()[:12]


def _is_of(line: str, home: Home, name: str) -> bool:
    return line.endswith(_mark(home, name).replace("%", r"\%"))


def _check_paths(home: Home, stored: Stored) -> None:
    for path in (stored.folder, home.root, PROJECT):
        if not str(path).isprintable():
            fix = "work in a folder whose name has none"
            raise ConfigError("the path holds a character that cannot be seen", where=repr(str(path)), fix=fix)


def _fields(cron: Cron) -> str:
    texts = (
        _short(cron.minutes, 0, 59),
        _short(cron.hours, 0, 23),
        _short(cron.days, 1, 31),
        _short(cron.months, 1, 12),
        _short(cron.weekdays, 0, 6),
    )
    return " ".join(texts)


def _short(values: Sequence[int], low: int, high: int) -> str:
    return "*" if len(values) == high - low + 1 else ",".join(map(str, values))


def _two(values: Sequence[int]) -> str:
    return ",".join(f"{value:02d}" for value in values)


def _specified(text: str) -> str:
    """Return a path as systemd reads it. A `/` is to follow: a blank at the end or a backslash would mean something."""
    return text.replace("%", "%%")


def _quoted(text: str, specials: str = "%$") -> str:
    """Return a word as systemd reads it: in quotes, without its variables and specifiers."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    for special in specials:
        escaped = escaped.replace(special, special * 2)
    return f'"{escaped}"'
