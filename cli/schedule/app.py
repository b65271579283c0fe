"""The commands of `rlft schedule`."""

from __future__ import annotations

import typer

from cli.schedule.apply import apply
from cli.schedule.changing import delete, pause, resume
from cli.schedule.inner import carry_out, look
from cli.schedule.lines import lines
from cli.schedule.listing import list_schedules
from cli.schedule.run import run
from cli.schedule.run_now import run_now

app = typer.Typer(no_args_is_help=True, help="Train again when there is a reason, without anyone watching.")
for command in (apply, run, lines):
    app.command()(command)
app.command(name="list")(list_schedules)
for command in (pause, resume, delete):
    app.command()(command)
app.command(name="run-now")(run_now)
app.command(hidden=True)(look)
app.command(name="carry-out", hidden=True)(carry_out)
