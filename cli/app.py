"""The Typer application: all commands of `rlft`, each in a file of its name.

Commands import heavy libraries inside their functions. So `rlft --help` is quick, and ZenML is imported after the
environment variables that it reads at its import are set (`mlops.home.variables.use_own_setup`).

Exit codes: see docs/guide/runs.md.
"""

from __future__ import annotations

import typer

from cli import environments
from cli.audit import audit
from cli.compare import compare
from cli.decisions import approve, history, reject, rollback
from cli.delete import delete
from cli.diagnose import diagnose
from cli.doctor import doctor
from cli.estimate import estimate
from cli.evaluate import evaluate
from cli.export import export
from cli.promote import promote
from cli.prune import prune
from cli.report import report
from cli.rescore import rescore
from cli.resume import resume
from cli.retrain import retrain
from cli.review import app as review
from cli.reward.app import app as reward
from cli.run import run
from cli.runs import runs
from cli.schedule import app as schedule
from cli.serve import serve, serve_engine
from cli.show import show
from cli.stack import stack
from cli.ui import ui

_TRAIN, _LOOK, _EVALUATE, _REGISTRY = "Train", "Look at runs", "Evaluate models", "The registry"
_SERVE, _CLEAN_UP = "Serve models", "Clean up"
_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
for command in (run, resume, estimate, retrain, rescore, audit, stack):
    app.command(rich_help_panel=_TRAIN)(command)
app.add_typer(environments.app, name="environments", rich_help_panel=_TRAIN)
app.add_typer(reward, name="reward", rich_help_panel=_TRAIN)
app.add_typer(schedule, name="schedule", rich_help_panel=_TRAIN)
for command in (runs, show, diagnose, compare, report, ui, doctor):
    app.command(rich_help_panel=_LOOK)(command)
app.add_typer(review, name="review", rich_help_panel=_LOOK)
app.command(rich_help_panel=_EVALUATE)(evaluate)
for command in (promote, approve, reject, history, rollback, export):
    app.command(rich_help_panel=_REGISTRY)(command)
for command in (serve, serve_engine):  # options that these do not know are passed on to vLLM's server
    app.command(context_settings=_PASSED_ON, rich_help_panel=_SERVE)(command)
for command in (delete, prune):
    app.command(rich_help_panel=_CLEAN_UP)(command)
