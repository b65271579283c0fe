"""The command line: `rlft run | resume | show | audit | environments | serve-engine | ui | stack | doctor`.

Heavy libraries are imported inside the commands: `rlft --help` is quick, and ZenML must see its environment first.

Exit codes: 0 the run finished (improved or not), 1 it failed, 2 the set-up cannot work, 3 too hard, 4 already solved,
130 interrupted.
"""

from __future__ import annotations

import typer

from cli import environments
from cli.audit import audit
from cli.doctor import doctor
from cli.resume import resume
from cli.run import run
from cli.serve_engine import serve_engine
from cli.show import show
from cli.stack import stack
from cli.ui import ui

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
app.command()(run)
app.command()(resume)
app.command()(show)
app.add_typer(environments.app, name="environments")
app.command()(audit)
# What it does not know, `vllm serve` may.
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(serve_engine)
app.command()(ui)
app.command()(stack)
app.command()(doctor)
