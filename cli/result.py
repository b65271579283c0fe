"""Begins a run, trains policies again whose weights it lacks, prints its summary, and ends with its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

import typer
from rich.console import Group, RenderableType
from rich.panel import Panel

from cli.guard import Begun
from mlops.ids import name_of_first, resumed_name
from mlops.summary.file import SUMMARY_FILE, read_result, read_summary, summary_text, write_asked, write_summary
from mlops.summary.summary import Status, Summary
from mlops.summary.verdict import blocks
from rlft.errors import StorageError, TrackerError, WeightsRemovedError
from rlft.reporting.terminal import Terminal, console, errors, plain_table, styled
from rlft.texts.blocks import Block, Bullets, Caution, Headline, Table

COLOURS: Mapping[Status, str] = {"improved": "green", "failed": "red"}  # of headlines; the others are yellow


def run_to_end(pipeline: Callable[[], Any], begun: Begun) -> str:
    """Call a pipeline, and return the id of its run in ZenML.

    A run that could not be registered has failed for ZenML, so that it can be resumed; here it has come to its end.
    """
    try:
        return str(pipeline().id)
    except TrackerError:
        if (left := begun.left()) is None:
            raise
        return left.pipeline_run_id or ""


def finish(folder: Path, run_id: str, target: Path | None, stack: str | None, *, as_json: bool = False) -> None:
    """Print the summary of a run, write it to `target` if there is one, and raise typer.Exit with its exit code.

    The summary is in the run's `folder`, and `run_id` is that in ZenML. `as_json` prints it as the JSON that `target`
    gets, for programs.

    Raises StorageError if the summary cannot be read.
    """
    summary, file = read_summary(folder), folder / SUMMARY_FILE
    if summary is None and stack is not None and _goes_on(run_id):  # an orchestrator that does not wait
        told = errors if as_json else console
        told.print("The run goes on. Its summary will be among the artifacts of its MLflow run:")
        told.print(show_ui(stack), soft_wrap=True)
        raise typer.Exit
    if summary is None:
        raise StorageError("the run's summary cannot be read", where=str(file), fix="rlft resume writes it anew")
    if target is not None and not write_summary(target, summary):
        target = None
    if as_json:
        console.write_json(json.loads(summary_text(summary)))
        raise typer.Exit(summary.exit_code)
    where = [f"Summary: {target or file}", f"Curves, traces, models: {show_ui(stack)}"]
    show_summary(summary, console, where=where)
    raise typer.Exit(summary.exit_code)


def read_stored(folder: Path, target: Path | None, again: str) -> tuple[dict[str, Any], Path]:
    """Return the summary in the folder of a replay or an evaluation, and where it is: in `target`, if that was asked.

    Raises StorageError, which says to do it `again`, if it cannot be read.
    """
    found, file = read_result(folder), folder / SUMMARY_FILE
    if found is None:
        raise StorageError("the summary cannot be read", where=str(file), fix=again)
    if target is not None and write_asked(target, json.dumps(found, indent=1)):
        file = target
    return found, file


def show_ui(stack: str | None) -> str:
    """Return the command that shows MLflow: that of a stack, or that of the home."""
    return f"rlft ui --stack {quote(stack)}" if stack else "rlft ui"


def _goes_on(run_id: str) -> bool:
    from zenml.client import Client

    return not Client().get_pipeline_run(run_id).status.is_finished


def show_summary(summary: Summary, console: Terminal, *, where: list[str]) -> None:
    """Print the result: before and after with an interval, the promotion, and `where` to look next (lines of text)."""
    colour = COLOURS.get(summary.status, "yellow")
    parts = [part for block in blocks(summary) for part in shown(block, colour)]
    parts += where
    console.print(Panel(Group(*parts), title=styled(f"rlft: {summary.status}"), expand=False))


def shown(block: Block, colour: str) -> Iterator[RenderableType]:
    """Yield what the terminal shows of a block; `colour` is that of the headline."""
    match block:
        case Headline(text):
            yield styled(text, colour)
        case Caution(text):
            yield styled(text, "yellow")
        case Bullets(text, items):
            yield text
            yield from (f"  {item}" for item in items)
        case Table():
            yield drawn(block)
        case _:
            yield block


def drawn(table: Table) -> RenderableType:
    """Return a table as the terminal shows it."""
    plain = plain_table(*table.columns)
    plain.title, plain.title_justify = table.title or None, "left"
    for row in table.rows:
        plain.add_row(*row)
    return plain


def with_weights(begin: Callable[[], Any], pipeline: Any, arguments: Mapping[str, Any], name: str) -> Any:
    """Begin an attempt at a run, and go on with another one if it needs weights that were removed.

    `begin` begins the one called `name`, of a `pipeline` with these `arguments`. Whether a round needs weights is known
    once the steps after it are not in the cache, which ZenML looks for one by one. The other attempt is part of the
    same run, in MLflow, too; it trains the removed policies again, from cached rollouts.
    """
    try:
        return begin()
    except WeightsRemovedError as removed:
        from zenml.client import Client

        from mlops.runs.finding import attempts_of
        from mlops.runs.policies import forget_removed
        from mlops.runs.resuming import steps_with_weights

        ended = Client().get_pipeline_run(name, allow_name_prefix_match=False)
        kept = steps_with_weights(ended)
        forget_removed()
        errors.print(f"{removed.what}; they are trained again, from cached rollouts")
        another = resumed_name(name_of_first(name), (each.name for each in attempts_of(ended)))
        going_on = pipeline.with_options(run_name=another)
        return going_on.replay(pipeline_run=ended.id, skip=kept, input_overrides=arguments)
