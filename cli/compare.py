"""`rlft compare`: what differs between runs, and which model, or which setting, is better."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import Verbose
from mlops.home.folder import find_home
from rlft.errors import RlftError
from rlft.evaluation.gates import CHOOSING
from rlft.reporting.terminal import console, errors

_TOO_FEW, _MOST_RUNS = ("no run is given", "only one run is given"), 20


class ComparedSplit(StrEnum):
    """The splits on which runs evaluate their trained policy."""

    TEST = "test"
    GATE = "gate"
    OFF_DISTRIBUTION = "off_distribution"


def compare(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUN RUN [RUN ...]", help="Ids or names of at least two runs.")
    ] = None,
    split: Annotated[ComparedSplit, typer.Option(help="The tasks on which they are compared.")] = ComparedSplit.TEST,
    tasks: Annotated[
        int, typer.Option(help="Show so many tasks that one solves and the other does not, each way.", min=0, max=1000)
    ] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    stack: Annotated[str | None, typer.Option(help="The ZenML stack that the runs used, if any.")] = None,
    verbose: Verbose = False,
) -> None:
    """Put runs side by side: what differs in settings, tasks and code, and which trained model is better, task by task.

    Whether a setting is better, several runs of each with other seeds can tell; the command says how many.
    """
    with guarded(verbose, None):
        runs = runs or []
        if not 2 <= len(runs) <= _MOST_RUNS:
            what = _TOO_FEW[len(runs)] if len(runs) < 2 else f"{len(runs)} runs are given"
            raise RlftError(what, where="RUN", fix=f"name two to {_MOST_RUNS} runs; `rlft runs` lists them")
        home = find_home()
        from cli.compared import show_comparison
        from cli.contrasted import make_comparison, stored_runs
        from mlops.runs.results import open_run

        if split is ComparedSplit.GATE:
            errors.print(CHOOSING)
        found = make_comparison(
            stored_runs([open_run(home, run, stack) for run in runs], split.value), split.value, tasks
        )
        console.write_json(found) if as_json else show_comparison(console, found)
