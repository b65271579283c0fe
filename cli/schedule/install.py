"""`rlft schedule install`: writes what lets systemd or cron look at a schedule when it is due."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from mlops.display.terminal import console
from mlops.home.folder import Home, find_home
from rlft.errors import RlftError, StorageError
from rlft.files import write_file

if TYPE_CHECKING:
    from mlops.schedules.store import Stored


def install(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.")],
    systemd: Annotated[bool, typer.Option("--systemd", help="Write a service and a timer of systemd.")] = False,
    cron: Annotated[bool, typer.Option("--cron", help="Put two lines into this user's crontab.")] = False,
    to: Annotated[
        Path | None,
        typer.Option(help="Folder for the units, or file for the lines of cron, instead of where they are read from."),
    ] = None,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Let systemd or cron look at a schedule when it is due."""
    with guarded(verbose, None):
        if systemd == cron:
            raise RlftError("it is not said for what", where="rlft schedule install", fix="give --systemd or --cron")
        from mlops.schedules import store

        home = find_home()
        with store.opened(home, make=False) as opened:
            stored = store.find(opened, name)
        if stored.cluster:
            fix = "`rlft schedule list` shows when it is due next"
            raise RlftError(f"the cluster keeps {name} itself", where="NAME", fix=fix)
        try:
            files, commands = _units(home, stored, to) if systemd else _lines(home, stored, to)
        except OSError as cause:
            fix = "let --to name a place that can be written"
            raise StorageError(f"it cannot be written: {cause}", where=str(to or "~/.config"), fix=fix) from cause
        if as_json:
            console.write_json({"name": name, "files": [str(file) for file in files], "commands": commands})
            return
        for file in files:
            console.print(f"wrote {file}", soft_wrap=True)
        if commands:
            console.print("It begins with:")
        for command in commands:
            console.print(f"  {command}", soft_wrap=True)


def _units(home: Home, stored: Stored, to: Path | None) -> tuple[list[Path], list[str]]:
    from mlops.schedules.units import systemd_units, unit_name, units_folder

    folder = to or units_folder()
    files = []
    for name, text in systemd_units(home, stored).items():
        write_file(folder / name, text)
        files.append(folder / name)
    commands = ["systemctl --user daemon-reload", f"systemctl --user enable --now {unit_name(stored)}.timer"]
    return files, [*commands, "loginctl enable-linger   # if it is to run while you are not logged in"]


def _lines(home: Home, stored: Stored, to: Path | None) -> tuple[list[Path], list[str]]:
    from tzlocal import get_localzone_name

    from mlops.schedules.units import cron_lines, install_cron

    lines = cron_lines(home, stored, get_localzone_name())
    if to is not None:
        write_file(to, "\n".join(lines) + "\n")
        return [to], [f"crontab {to}   # which replaces your crontab: or copy its lines with crontab -e"]
    install_cron(home, stored, lines)
    return [Path("crontab")], []
