"""The commands of `rlft reward`."""

from __future__ import annotations

import typer

from cli.reward.explain import explain
from cli.reward.run import run
from cli.reward.validate import validate

app = typer.Typer(no_args_is_help=True, help="Look at a written reward before anything is trained on it.")
for command in (explain, run, validate):
    app.command()(command)
