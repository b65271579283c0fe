"""`rlft evaluate`: attempt a suite with several models, and show what they came to beside each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.guard import guarded
from cli.options import Overrides, Stack, Summary, SummaryAsJson, Verbose
from cli.result import read_stored, show_ui
from cli.start import check_kept, say_start
from mlops.home.folder import find_home
from mlops.tracking.address import HOME
from rlft.errors import ConfigError
from rlft.reporting.terminal import Terminal, console, plain_table, styled

_SHOWN = ("accuracy", "reward", "pass_at_k", "maj_at_k")
_PLAIN = {"turns": 1.0, "tool_calls": 0.0, "sampled_tokens": 0.0, "seconds": 0.0}  # what says nothing for all models
_FORMS = (
    "Hub name, folder, models:/NAME@ALIAS, models:/NAME/VERSION, RUN:best, RUN:base, RUN:start, RUN:round=20, or "
    "openai:MODEL@URL."
)


def evaluate(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help=_FORMS)],
    suite: Annotated[
        Path, typer.Option(help="A suite, such as configs/suites/demo.yaml, or a config; see docs/guide/evaluation.md.")
    ],
    overrides: Overrides = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Name of the environment variable that holds the key of openai:MODEL@URL.")
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Attempt everything again, even where its result is stored.")
    ] = False,
    as_json: SummaryAsJson = False,
    stack: Stack = None,
    summary: Summary = None,
    verbose: Verbose = False,
) -> None:
    """Evaluate models on a suite: the same tasks, prompts and seeds for all of them.

    What was evaluated before is taken from the cache, so that another model costs no more than its own attempts. The
    exit code is 0 if it finished, whatever the models came to, 1 if it failed, and 2 if the set-up cannot work.
    """
    with guarded(verbose, summary) as begun:
        from rlft.config.file import check_suite_variables, load_suite
        from rlft.evaluation.model_names import labels_of, parse_model
        from rlft.texts.secrets import require

        home = find_home()
        settings = load_suite(suite, overrides)
        given = [parse_model(model) for model in models]
        labels_of(given)
        key = _key(api_key_env)
        if stack is None:
            check_suite_variables(settings)
            require(key, "--api-key-env")
        say_start(settings.name)
        check_kept(home)
        from mlops.stacks.stack import connect
        from pipelines.models import check_models

        tracking_uri = connect(home, stack)
        if stack is None:
            check_models(home, given, tracking_uri)
        from mlops.stacks.image import pod_options
        from pipelines.evaluate import evaluate as pipeline

        begun.repeated, name = True, f"{settings.name}-evaluate-{datetime.now():%Y%m%d-%H%M%S-%f}"
        named = pipeline.with_options(run_name=name, **pod_options(settings))
        if no_cache:
            named = named.with_options(enable_cache=False)
        address = tracking_uri if stack else HOME
        named(suite=settings.model_dump(mode="json"), models=list(models), tracking_uri=address, api_key=key)
        finish_evaluation(home.run_folder(name, shared=stack is not None), summary, stack, as_json=as_json)


def _key(variable: str | None) -> str | None:
    """Return `env:NAME`. Raises ConfigError for what is no name of a variable."""
    if variable is None:
        return None
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
        raise ConfigError(
            "this is no name of an environment variable (its value must not stand here)",
            where="--api-key-env",
            fix="write --api-key-env OPENAI_API_KEY, and export that variable",
        )
    return f"env:{variable}"


def finish_evaluation(folder: Path, target: Path | None, stack: str | None = None, *, as_json: bool) -> None:
    """Print the summary in the folder of an evaluation, and write it to `target`. Raises StorageError without it."""
    found, file = read_stored(folder, target, "evaluate again")
    if as_json:
        console.write_json(found)
    else:
        show_evaluation(found, console, [f"Summary: {file}", f"MLflow: {show_ui(stack)}"])


def show_evaluation(found: Mapping[str, Any], console: Terminal, where: list[str]) -> None:
    """Print a table for each cell and split, which versions these are, and a sentence for each pair."""
    for cell, of_models in found["scenarios"].items():
        for split in dict.fromkeys(split for each in of_models.values() for split in each["splits"]):
            there = {label: each["splits"][split] for label, each in of_models.items() if split in each["splits"]}
            _show_split(console, f"{cell} ({split})", there, found["metric"])
    for line in _versions(found["models"]):
        console.print(line, soft_wrap=True)
    for label, each in _without_score(found):
        console.print(styled(f"{label}: {each}", "yellow"))
    for pair in found["differences"]:
        console.print(pair["sentence"], soft_wrap=True)
    if len(found["differences"]) > 1:
        console.print(
            f"These are {len(found['differences'])} comparisons, each at 95 %: some may exclude zero by chance."
        )
    models = "1 model" if len(found["models"]) == 1 else f"{len(found['models'])} models"
    console.print(f"{models}, {found['seconds']:.0f} s")
    for line in where:
        console.print(line, soft_wrap=True)


def _show_split(console: Terminal, title: str, there: Mapping[str, Any], metric: str) -> None:
    """Print the metrics of models at one split of a cell, and the metric in its slices: a row for each number.

    So every number is whole, however narrow the terminal is.
    """
    tasks, n = (max(each[key] for each in there.values()) for key in ("tasks", "num_samples"))
    console.print(styled(f"{title}: {tasks} tasks, {'once' if n == 1 else f'{n} times'} each", "bold"))
    table = plain_table("metric", "model", "value")
    for name in _metrics(there, n):
        for label, each in there.items():
            table.add_row(_heading(name, n), label, _cell(each["metrics"].get(name), name))
    slices = {
        (column, value): None
        for each in there.values()
        for column, values in each["slices"].items()
        for value in values
    }
    for column, value in slices:
        for label, each in there.items():
            if one := each["slices"].get(column, {}).get(value, {}).get(metric):
                where = f"{metric} where {column} is {value} ({one['count']} tasks)"
                table.add_row(where, label, _cell(one, metric))
    console.print(table)


def _metrics(there: Mapping[str, Any], n: int) -> list[str]:
    """Return which metrics are shown of models that attempted each task `n` times."""
    known = {
        name: [each["metrics"][name]["mean"] for each in there.values() if name in each["metrics"]]
        for name in (*_SHOWN, *_PLAIN)
    }
    shown = [name for name in _SHOWN if known[name] and (n > 1 or name in ("accuracy", "reward"))]
    return shown + [name for name, plain in _PLAIN.items() if any(mean != plain for mean in known[name])]


def _heading(name: str, n: int) -> str:
    return {"pass_at_k": f"pass@{n}", "maj_at_k": f"maj@{n}", "accuracy": f"avg@{n}" if n > 1 else "accuracy"}.get(
        name, name.replace("_", " ")
    )


def _cell(interval: Mapping[str, Any] | None, name: str) -> str:
    if interval is None:
        return "-"
    if name in _SHOWN:
        return f"{interval['mean']:.3f} [{interval['low']:.3f}, {interval['high']:.3f}]"
    return f"{interval['mean']:.3g}"


def _versions(models: Mapping[str, Any]) -> Iterator[str]:
    """Yield what each label of a registered model or of a run's best policy stands for, as an alias moves on."""
    for label, facts in models.items():
        if facts.get("version") is not None:
            yield f"{label} is {facts['model']} (version {facts['version']})"
        elif facts["kind"] == "run" and facts["model"].endswith(":best") and facts.get("round") is not None:
            yield f"{label} is {facts['model']} (after {facts['round']} round{'s' * (facts['round'] != 1)})"


def _without_score(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for cell, of_models in found["scenarios"].items():
        for label, each in of_models.items():
            for split, measures in each["splits"].items():
                if errors := sum(measures["errors"].values()):
                    kinds = ", ".join(f"{count} of {kind}" for kind, count in measures["errors"].items())
                    text = f"{errors} of {measures['attempts']} attempts at {cell} ({split}) have no score: {kinds}"
                    yield label, text
