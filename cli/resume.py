"""`rlft resume`: go on with a run that was cut short."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from cli.guard import guarded
from cli.interrupt import keep_from_zenml
from cli.options import Stack, Summary, Verbose
from cli.result import finish
from cli.start import say_start
from mlops.home.folder import find_home
from mlops.home.processes import claimed


def resume(
    run: Annotated[str, typer.Argument(help="Id or name of a run that failed or was killed.")],
    stack: Stack = None,
    summary: Summary = None,
    verbose: Verbose = False,
) -> None:
    """Finish a run that was cut short, without repeating finished steps.

    The exit code is that of `rlft run`.
    """
    with guarded(verbose, summary) as interrupt, ExitStack() as held:
        home = find_home()
        say_start(run)
        from mlops.stacks.stack import connect

        tracking_uri = connect(home, stack)
        keep_from_zenml()
        from mlops.runs.runs import find_run, name_of, resumable_attempt
        from mlops.runs.starting import resumed
        from pipelines.train import train

        asked = find_run(run)
        held.enter_context(claimed(home, name_of(asked), stack))
        found = resumable_attempt(home, asked)
        again = resumed(found, tracking_uri if stack else None)
        if stack is not None:
            from mlops.stacks.image import check_image

            check_image(again.config)
        interrupt.run_name = again.name if stack is None else None  # on a stack it may go on elsewhere
        finished = train.with_options(run_name=again.name, **again.options).replay(
            pipeline_run=found.id, skip_successful_steps=True, input_overrides=again.inputs
        )
        finish(home, str(finished.id), summary, stack)
