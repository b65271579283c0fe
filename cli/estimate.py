"""`rlft estimate`: what a run will take, before it is begun."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.guard import guarded
from cli.options import Overrides, ResultAsJson, Verbose
from cli.start import check_start
from mlops.home.folder import find_home
from rlft.config import Config
from rlft.config.file import load_config
from rlft.reporting.bars import duration
from rlft.reporting.terminal import console, errors, styled

if TYPE_CHECKING:  # they import numpy
    from rlft.estimation.estimate import Estimate
    from rlft.estimation.machine import Span


def estimate(
    config: Annotated[
        Path,
        typer.Argument(help="A YAML file such as configs/demo.yaml."),
    ],
    overrides: Overrides = None,
    as_json: ResultAsJson = False,
    price_per_hour: Annotated[
        float | None, typer.Option(min=0, help="What an hour of the machine costs, in any currency.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=5, max=3600, help="How long is measured; at least one round is.")
    ] = 60.0,
    verbose: Verbose = False,
) -> None:
    """Say before a run how long it takes, how much memory and how many tokens, as ranges.

    A probe of a minute loads the model, samples a few attempts and trains on them; nothing of it is kept. The exit
    code is 2 if memory is too small or the run could not start, and 0 otherwise.
    """
    with guarded(verbose, None):
        settings = load_config(config, overrides or [])
        check_start(settings, find_home(), stack=None)
        errors.print(f"This machine is probed for {seconds:g} s.")
        found = _estimated(settings, seconds)
        if as_json:
            console.write_json(found.as_json(price_per_hour))
        else:
            _show(found, settings.name, price_per_hour)
        if found.room.verdict == "does_not_fit":
            raise typer.Exit(2)


def _estimated(config: Config, seconds: float) -> Estimate:
    from rlft.estimation.estimate import estimate_run
    from rlft.estimation.machine import gpus_here, memory_bytes
    from rlft.estimation.probe import run_probe

    probed, gpus = run_probe(config, seconds), gpus_here()
    there = min(gpus) if probed.on_gpu and gpus else memory_bytes()
    used = max(len(gpus), config.trainers) if probed.on_gpu else len(gpus)
    return estimate_run(config, probed, used, there)


def _show(found: Estimate, name: str, price_per_hour: float | None) -> None:
    """Print what a run takes, stage by stage and in all, and what the numbers rest on."""
    from rich.table import Table

    table = Table(title=f"What a run of {name} takes")
    for column in ("stage", "time"):
        table.add_column(column)
    for stage, seconds in found.stages.items():
        table.add_row(stage, _times(seconds))
    table.add_row(styled("in all", "bold"), styled(_times(found.seconds), "bold"))
    console.print(table)
    console.print(
        f"Tokens: {_counts(found.sampled)} are sampled in the rounds, {_counts(found.evaluated)} beside them."
    )
    console.print(styled(found.room.sentence, "" if found.room.verdict == "fits" else "red"))
    if found.gpus:
        hours = found.seconds.times(found.gpus / 3600)
        console.print(f"GPU-hours: {hours.low:.2g} to {hours.high:.2g} on {found.gpus} GPU{'s' * (found.gpus > 1)}.")
    if price_per_hour is not None:
        cost = found.cost(price_per_hour)
        console.print(f"Cost: {cost.low:,.2f} to {cost.high:,.2f} at {price_per_hour:,g} an hour.")
    for sentence in found.basis:
        console.print(sentence)


def _times(span: Span) -> str:
    low, high = duration(span.low), duration(span.high)
    return low if low == high else f"{low} to {high}"


def _counts(span: Span) -> str:
    return f"{span.low:,.0f} to {span.high:,.0f}"
