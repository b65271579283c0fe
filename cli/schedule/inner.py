"""What the processes of a scheduler call: hidden commands, which nobody types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import Verbose
from mlops.display.terminal import errors
from mlops.home.folder import find_home
from rlft.errors import RlftError
from rlft.files import write_file
from rlft.secrets import hide


def look(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    to: Annotated[Path, typer.Option(help="File for what is found.")],
    verbose: Verbose = False,
) -> None:
    """Find what the reasons of a schedule are about, and write it to a file as JSON; or why that cannot be found."""
    with guarded(verbose, None):
        from mlops.schedules import store
        from mlops.schedules.facts import look as look_at

        home = find_home()
        with store.opened(home) as opened:
            stored = store.find(opened, name)
        try:
            found = look_at(home, stored).to_json()
        except RlftError as error:
            write_file(to, json.dumps({"error": hide(str(error))}))
            raise
        write_file(to, json.dumps(found))


def carry_out(
    number: Annotated[int, typer.Argument(metavar="ID", help="Number of the firing.")], verbose: Verbose = False
) -> None:
    """Look after a firing until it is over."""
    with guarded(verbose, None):
        from mlops.schedules.watch import carry_out as carry
        from mlops.schedules.watching import Watch

        watch = Watch(find_home(), say=lambda text: errors.print(text, soft_wrap=True))
        with watch.signals.handled():
            done = carry(watch, number)
        raise typer.Exit(int(done is not None and done.state == "failed"))
