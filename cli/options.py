"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigPath = Annotated[Path, typer.Argument(help="A YAML file such as configs/demo.yaml.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Change a setting of the config, such as training.rounds=3. May be given several times."
    ),
]
Stack = Annotated[
    str | None, typer.Option(help="Run on this ZenML stack of yours; without it everything is kept in .rlft/.")
]
# An absolute path, since an environment's code may change the working directory.
Summary = Annotated[
    Path | None, typer.Option(resolve_path=True, help="Also write the run's summary to this file, as JSON.")
]
ResultAsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]
SummaryAsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show the full logs.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would go; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Run every step again, even where its result is stored.")]
RunName = Annotated[
    str | None,
    typer.Option(help="Name of the run. Without it the config's name, what --set changes and the time make one."),
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", help="Tag the run, as in --tag dataset=2026-11. May be given several times."),
]
Sweeps = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="KEY=A,B,...",
        help="Run once for each of these values, as in --sweep seed=0,1,2, and for every combination if given several "
        "times.",
    ),
]
AnyRun = Annotated[str, typer.Argument(help="Id or name of a run, or the beginning of either.")]
UsedStack = Annotated[str | None, typer.Option(help="The ZenML stack that the run used, if any.")]
