"""`rlft schedule install`: writes what lets systemd or cron look at a schedule when it is due."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from mlops.display.terminal import console
from mlops.home.folder import Home, find_home
from rlft.errors import ConfigError, RlftError, StorageError
from rlft.files import write_file

if TYPE_CHECKING:
    from mlops.schedules.store import Stored


def install(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.")],
    systemd: Annotated[bool, typer.Option("--systemd", help="Write a service and a timer of systemd.")] = False,
    cron: Annotated[bool, typer.Option("--cron", help="Put two lines into this user's crontab.")] = False,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Only write the files, into this folder, and install nothing."),
    ] = None,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Let systemd or cron look at a schedule when it is due.

    The units are written where systemd reads them, and the commands that begin them are printed; lines of cron hold at
    once. With --to either is only written into a folder, to be looked at, and the commands that install it are printed.
    """
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
        if to is not None and to.exists() and not to.is_dir():
            raise ConfigError("this is no folder", where=f"--to {to}", fix="name a folder, which may be a new one")
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
            console.print("These commands begin it:")
        else:
            console.print("cron looks at it from now on; `crontab -l` shows its two lines")
        for command in commands:
            console.print(f"  {command}", soft_wrap=True)


def _units(home: Home, stored: Stored, to: Path | None) -> tuple[list[Path], list[str]]:
    from mlops.schedules.units import systemd_units, unit_name, units_folder

    folder = units_folder() if to is None else to.absolute()
    files = []
    for name, text in systemd_units(home, stored).items():
        write_file(folder / name, text)
        files.append(folder / name)
    found = "daemon-reload" if to is None else shlex.join(["link", *map(str, files)])
    commands = [f"systemctl --user {found}", f"systemctl --user enable --now {unit_name(home, stored.name)}.timer"]
    return files, [*commands, "loginctl enable-linger   # if it is to run while you are not logged in"]


def _lines(home: Home, stored: Stored, to: Path | None) -> tuple[list[Path], list[str]]:
    from tzlocal import get_localzone_name

    from mlops.schedules.starting import cron_log_file
    from mlops.schedules.units import cron_lines, install_cron, unit_name

    lines = cron_lines(home, stored, get_localzone_name())
    cron_log_file(home, stored).parent.mkdir(parents=True, exist_ok=True)  # without it the shell does not begin a line
    if to is None:
        install_cron(home, stored, lines)
        return [Path("crontab")], []
    file = to.absolute() / f"{unit_name(home, stored.name)}.cron"
    write_file(file, "\n".join(lines) + "\n")
    added = f"(crontab -l; cat {shlex.quote(str(file))}) | crontab -"
    return [file], [f"{added}   # adds its lines to your crontab"]
