"""The Typer application: all commands of `rlft`.

Only the module of the command that is called is imported, as all of them take a second, and it imports heavy libraries
inside its functions. So `rlft --help` is quick, and ZenML is imported after the environment variables that it reads at
its import are set (`mlops.home.variables.use_own_setup`).

Exit codes: see docs/guide/runs.md.
"""

from __future__ import annotations

from importlib import import_module

import typer

# By the heading in the help: the commands, with the module of each where that has another name.
_COMMANDS = {
    "Train": "run resume estimate retrain:replay rescore:replay audit stack environments reward schedule",
    "Look at runs": "runs show diagnose compare report ui doctor review",
    "Evaluate models": "evaluate",
    "The registry": "promote approve:registry reject:registry history:registry rollback:registry export",
    "Serve models": "serve serve-engine:serve",
    "Clean up": "delete:removing prune:removing",
}
_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def make_app(first: str = "") -> typer.Typer:
    """Return the application with the command called `first`, or with all where there is none."""
    # As Markdown the lines of a paragraph are joined, where they would break in their middle.
    app = typer.Typer(
        add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="markdown"
    )
    app.callback()(lambda: None)  # else a single command would take its own name for an argument
    found = {each.partition(":")[0]: (each, panel) for panel, names in _COMMANDS.items() for each in names.split()}
    for name, (each, panel) in found.items():
        if first in found and name != first:
            continue
        module = import_module(f"cli.{each.rpartition(':')[2]}")
        if name in ("environments", "reward", "schedule", "review"):
            app.add_typer(module.app, name=name, rich_help_panel=panel)
            continue
        # Options that the commands that serve do not know are passed on to vLLM's server.
        settings = _PASSED_ON if panel == "Serve models" else None
        app.command(name, context_settings=settings, rich_help_panel=panel)(getattr(module, name.replace("-", "_")))
    return app
