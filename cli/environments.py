"""`rlft environments`: `check` tries an environment of one's own, `new` writes one to begin from."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from cli.conversation import number, show_messages, show_parts
from cli.guard import guarded
from rlft.errors import ConfigError
from rlft.reporting.terminal import console, styled

if TYPE_CHECKING:
    from rlft.rewards.audit.environment import CheckReport
    from rlft.rewards.audit.rewards import AuditReport

_MEANS = {  # {what was tried: {whether it went well: the sentence for it}}
    "gold": {True: "earns the full reward on every task", False: "does not earn the full reward on every task"},
    "silence": {True: "an empty answer earns nothing", False: "an empty answer earns something, or has no score"},
    "repeats": {
        True: "the same conversation and the same score came twice",
        False: "a conversation or a score came out differently the second time",
    },
}
app = typer.Typer(no_args_is_help=True, help="Try an environment, or begin a new one.")


@app.command()
def check(
    environment: Annotated[
        str, typer.Argument(help="The environment, as package.module:Class or path/to/file.py:Class.")
    ],
    tasks: Annotated[Path, typer.Option(help="A file of tasks to try it on: JSONL, .csv or .parquet.")],
    kwargs: Annotated[str, typer.Option(help="Constructor arguments as a JSON object.")] = "{}",
    prompt: Annotated[
        str | None,
        typer.Option(help="Field or template of the prompt. Without it the field prompt, question or text is read."),
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            help="Field or template of the right answer. Without it answer, ground_truth or reward_model.ground_truth "
            "is read."
        ),
    ] = None,
    id: Annotated[
        str | None, typer.Option(help="Field with a unique id. Without it ids are made from the content.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.01, help="Seconds that a tool call, or a score, may take.")] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the full logs.")] = False,
) -> None:
    """Check that the gold answer earns all and an empty one nothing, that scores repeat and tools are described.

    The exit code is 0 without problems and 2 with problems.
    """
    with guarded(verbose, None):
        arguments = _read_kwargs(kwargs)
        from rlft.environments.contract.importing import check_syntax

        if not as_json:  # with --json it is one of the report's problems
            # Before the imports below, which take seconds: a name of another form is refused at once.
            check_syntax(environment, "environment", "Class")
        from rlft.config import SourceConfig
        from rlft.reporting.bars import Display
        from rlft.rewards.audit.environment import check_named

        kind = ending if (ending := tasks.suffix[1:].lower()) in ("csv", "parquet") else "jsonl"
        source = SourceConfig(source=kind, path=str(tasks), prompt=prompt, answer=answer, id=id)
        # An environment may print, and stdout is for the JSON alone.
        aside = redirect_stdout(sys.stderr) if as_json else nullcontext()
        # What scoring logs as a warning is one of the report's problems, too.
        with aside, _errors_only(verbose), Display().stage("check") as progress:
            report = check_named(environment, arguments, source, timeout_seconds=timeout, progress=progress)
        if as_json:
            console.write_json(report.to_json())
        else:
            show_report(report)
        if report.problems:
            raise typer.Exit(2)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the module, the tasks and the config, such as price_list.")],
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the full logs.")] = False,
) -> None:
    """Write a small environment that works, with a test, tasks and a config, to begin from."""
    with guarded(verbose, None):
        from cli.scaffold import class_name, write_environment

        for path in write_environment(name, Path.cwd()):
            console.print(styled(f"wrote {path.name}"))
        note = "" if find_spec("pytest") else "   (pytest comes with `make setup-dev`)"
        console.print(
            styled(
                "\nThey work as they are:\n"
                f"  rlft environments check {name}.py:{class_name(name)} --tasks {name}.jsonl\n"
                f"  rlft audit {name}.yaml\n"
                f"  rlft run {name}.yaml\n"
                f"  pytest test_{name}.py{note}"
            )
        )


@contextmanager
def _errors_only(verbose: bool) -> Iterator[None]:
    """Keep warnings of `rlft.rewards` out of the log, unless full logs were asked for."""
    logger = logging.getLogger("rlft.rewards")
    before = logger.level
    logger.setLevel(before if verbose else logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def show_report(report: CheckReport) -> None:
    """Print the first task's gold turn by turn, what the attacks earned, and what is wrong."""
    if report.rollout is not None and report.reward is not None:
        console.print(styled(f"gold of task {report.rollout.task_id}", "bold underline"))
        show_messages(console, report.rollout.messages)
        show_parts(console, report.reward.parts, report.weights, report.reward.total)
        console.print()
    if report.audit is not None:
        _show_audit(report.audit)
    found = {"gold": report.gold, "silence": report.silence, "repeats": report.repeats}
    for name, well in found.items() if any(each is not None for each in found.values()) else ():
        console.print(styled(f"{name:<8} {'could not be tried' if well is None else _MEANS[name][well]}"))
    console.print(styled(f"{'tools':<8} {', '.join(tool.name for tool in report.tools) or 'none'}"))
    for note in report.notes:
        console.print(styled(f"note: {note}", "yellow"))
    for problem in report.problems:
        console.print(styled(f"- {problem}", "red"))
    console.print("problems: none" if not report.problems else f"problems: {len(report.problems)}")


def _show_audit(audit: AuditReport) -> None:
    table = Table("text", "mean", "lowest", "highest", "gold", "tasks", "paid most by", box=None, title_justify="left")
    for row in audit.shown():
        scores = [number(row[name]) for name in ("mean", "minimum", "maximum", "gold_mean")]
        table.add_row(row["attack"], *scores, str(row["count"]), row["part"])
    console.print(table)
    console.print()


def _read_kwargs(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"not JSON: {error}", where="--kwargs", fix="""write --kwargs '{"name": 3}'""") from error
    if not isinstance(read, dict):
        raise ConfigError(f"a JSON {type(read).__name__}", where="--kwargs", fix="""write an object: '{"name": 3}'""")
    return read
