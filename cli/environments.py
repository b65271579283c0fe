"""`rlft environments`: `check` tries an environment of one's own, `new` writes one to begin from."""

from __future__ import annotations

import importlib.util
import json
import keyword
import re
import sys
from contextlib import nullcontext, redirect_stdout
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from cli.show import number, show_messages, show_parts
from rlft.errors import ConfigError, StorageError
from rlft.reporting.terminal import console, plain_table, styled

if TYPE_CHECKING:
    from rlft.rewards.audit.environment import CheckReport
    from rlft.rewards.audit.rewards import AuditReport

_MEANS = {  # {what was tried: {whether it went well: the sentence for it}}
    "gold": {True: "earns the full reward on every task", False: "does not earn the full reward on every task"},
    "silence": {True: "an empty answer earns nothing", False: "an empty answer earns something, or has no score"},
}
_FILES = {
    "environment.py.template": "{name}.py",
    "test.py.template": "test_{name}.py",
    "tasks.jsonl": "{name}.jsonl",
    "config.yaml.template": "{name}.yaml",
}
app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help="Try an environment, or begin a new one.")


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
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Check that the gold answer earns all and an empty one nothing, and that tools are described.

    The exit code is 0 without problems and 2 with problems.
    """
    with guarded(verbose, None):
        arguments = _read_kwargs(kwargs)
        from rlft.config import SourceConfig
        from rlft.reporting.bars import Display
        from rlft.rewards.audit.environment import check_named

        kind = ending if (ending := tasks.suffix[1:].lower()) in ("csv", "parquet") else "jsonl"
        source = SourceConfig(source=kind, path=str(tasks), prompt=prompt, answer=answer, id=id)
        # An environment may print, and stdout is for the JSON alone.
        aside = redirect_stdout(sys.stderr) if as_json else nullcontext()
        with aside, Display().stage("check") as progress:
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
    verbose: Verbose = False,
) -> None:
    """Write a small environment that works, with a test, tasks and a config, to begin from."""
    with guarded(verbose, None):
        for path in write_environment(name, Path.cwd()):
            console.print(styled(f"wrote {path.name}"))
        note = "" if importlib.util.find_spec("pytest") else "   (pytest comes with `make setup-dev`)"
        console.print(
            styled(
                "\nThey work as they are:\n"
                f"  rlft environments check {name}.py:{class_name(name)} --tasks {name}.jsonl\n"
                f"  rlft audit {name}.yaml\n"
                f"  rlft run {name}.yaml\n"
                f"  pytest test_{name}.py{note}"
            )
        )


def show_report(report: CheckReport) -> None:
    """Print the first task's gold turn by turn, what the attacks earned, and what is wrong."""
    if report.rollout is not None and report.reward is not None:
        console.print(styled(f"gold of task {report.rollout.task_id}", "bold underline"))
        show_messages(console, report.rollout.messages)
        show_parts(console, report.reward.parts, report.weights, report.reward.total)
        console.print()
    if report.audit is not None:
        _show_audit(report.audit)
    found = {"gold": report.gold, "silence": report.silence}
    for name, well in found.items() if any(each is not None for each in found.values()) else ():
        console.print(styled(f"{name:<8} {'could not be tried' if well is None else _MEANS[name][well]}"))
    console.print(styled(f"{'tools':<8} {', '.join(tool.name for tool in report.tools) or 'none'}"))
    for note in report.notes:
        console.print(styled(f"note: {note}", "yellow"))
    for problem in report.problems:
        console.print(styled(f"- {problem}", "red"))
    console.print("problems: none" if not report.problems else f"problems: {len(report.problems)}")


def _show_audit(audit: AuditReport) -> None:
    table = plain_table("text", "mean", "lowest", "highest", "gold", "tasks", "paid most by")
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


def write_environment(name: str, folder: Path) -> list[Path]:
    """Write environment, test, tasks and config to `folder`, and return where they are.

    Raises ConfigError for a name that cannot be imported as a module of its own and for files that are there already:
    then nothing is written. Raises StorageError where nothing can be written.
    """
    targets = {template: folder / target.format(name=name) for template, target in _FILES.items()}
    _check_name(name)
    if there := [target.name for target in targets.values() if target.exists()]:
        raise ConfigError(f"there already: {', '.join(there)}", where=str(folder), fix="choose another name")
    if importlib.util.find_spec(name) is not None:
        raise ConfigError(f"{name!r} is the name of an installed module", where="NAME", fix=f"say, {name}_tasks")
    source = files("cli") / "templates" / "environment"
    for template, target in targets.items():
        text = (source / template).read_text(encoding="utf-8")
        try:
            target.write_text(Template(text).substitute(name=name, class_name=class_name(name)), encoding="utf-8")
        except OSError as error:
            raise StorageError(
                f"cannot be written: {error}", where=str(target), fix="change to another folder"
            ) from error
    return list(targets.values())


def class_name(name: str) -> str:
    """Return the name of an environment's class: PriceList for `price_list`."""
    return "".join(part.capitalize() for part in name.split("_"))


def _check_name(name: str) -> None:
    """Raise ConfigError, which suggests a similar name, unless the name is a module's in snake case."""
    if re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) and not keyword.iskeyword(name):
        return
    near = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_0123456789")
    example = near if near and not keyword.iskeyword(near) else "my_tasks"
    raise ConfigError(
        f"{name!r} cannot be the name of a module",
        where="NAME",
        fix=f"use small letters, digits and underscores: {example}",
    )
