"""The Typer application: all commands of `rlft`, each in a file of its name.

Commands import heavy libraries inside their functions. So `rlft --help` is quick, and ZenML is imported after the
environment variables that it reads at its import are set (`mlops.home.variables.use_own_setup`).

Exit codes: see docs/guide/runs.md.
"""

from __future__ import annotations

import typer

from cli import environments
from cli.approve import approve
from cli.audit import audit
from cli.compare import compare
from cli.delete import delete
from cli.diagnose import diagnose
from cli.doctor import doctor
from cli.evaluate import evaluate
from cli.export import export
from cli.history import history
from cli.promote import promote
from cli.prune import prune
from cli.reject import reject
from cli.report import report
from cli.resume import resume
from cli.rollback import rollback
from cli.run import run
from cli.runs import runs
from cli.serve import serve
from cli.serve_engine import serve_engine
from cli.show import show
from cli.stack import stack
from cli.ui import ui

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
app.command()(run)
app.command()(resume)
app.command()(evaluate)
app.command()(runs)
app.command()(show)
app.command()(diagnose)
app.command()(compare)
app.command()(report)
app.command()(delete)
app.command()(prune)
app.command()(promote)
app.command()(approve)
app.command()(reject)
app.command()(history)
app.command()(rollback)
app.command()(export)
app.add_typer(environments.app, name="environments")
app.command()(audit)
# Options that these commands do not know are passed on to vLLM's server.
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(serve_engine)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(serve)
app.command()(ui)
app.command()(stack)
app.command()(doctor)
