"""`rlft rescore`: stored attempts under another reward."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import Overrides, RunName, Stack, Summary, SummaryAsJson, Verbose
from cli.replayed import finish_replay, labels_for, open_home, options_for
from cli.result import run_to_end
from mlops.home.folder import find_home
from mlops.runs.identity import users_commits
from mlops.runs.store import as_parameter
from rlft.config.file import check_variables, load_config

AUDIT_FAILED = 2  # the exit code of `rlft audit`, too


def rescore(
    run: Annotated[str, typer.Argument(help="Id or name of a run whose attempts are scored again.")],
    config: Annotated[Path, typer.Option(help="A YAML file with the other reward, its environment and tasks.")],
    overrides: Overrides = None,
    rounds: Annotated[
        list[int] | None,
        typer.Option("--round", min=0, help="Score this round alone. May be given several times; all without it."),
    ] = None,
    name: RunName = None,
    stack: Stack = None,
    summary: Summary = None,
    as_json: SummaryAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Score the stored attempts of a run by another reward, without sampling: whose order changes, and the parts.

    The reward audit runs, too. The exit code is 0 if it passes (or is switched off), 2 if it does not or if the set-up
    cannot work, and 1 if scoring failed.
    """
    with guarded(verbose, summary) as begun, ExitStack() as held:
        home = find_home()
        settings = load_config(config, overrides)
        if stack is None:
            check_variables(settings)
        tracking_uri = open_home(home, run, stack, held)
        from pipelines.rescore import plan_rescoring
        from pipelines.rescore import rescore as pipeline

        plan = plan_rescoring(home, run, settings, rounds or [])
        labels = labels_for("rescore", plan.source.name, name, users_commits(config, settings))
        arguments = {
            "config": as_parameter(settings),
            "source": plan.source.name,
            "rounds": list(plan.rounds),
            "tracking_uri": tracking_uri,
            "labels": labels.model_dump(mode="json"),
        }
        begin = partial(
            pipeline.with_options(**options_for(home, plan.source, labels, arguments, settings)), **arguments
        )
        begun.repeated = True
        run_to_end(begin, begun)
        found = finish_replay(home.run_folder(labels.name, shared=stack is not None), summary, stack, as_json=as_json)
        if found["audit"] is not None and not found["audit"]["passed"]:
            raise typer.Exit(AUDIT_FAILED)
