"""Shows what an evaluation came to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cli.evaluation_tables import metrics_table, slice_tables
from cli.result import show_ui
from mlops.summary.file import SUMMARY_FILE, read_result, write_asked
from rlft.errors import StorageError
from rlft.reporting.terminal import Terminal, console, styled


def finish_evaluation(folder: Path, target: Path | None, stack: str | None = None, *, as_json: bool) -> None:
    """Print the summary in the folder of an evaluation, and write it to `target`. Raises StorageError without it."""
    found, file = read_result(folder), folder / SUMMARY_FILE
    if found is None:
        raise StorageError("the summary of this evaluation cannot be read", where=str(file), fix="evaluate again")
    if target is not None and not write_asked(target, json.dumps(found, indent=1)):
        target = None
    if as_json:
        console.write_json(found)
    else:
        where = [f"Summary: {target or file}", f"MLflow: {show_ui(stack)}"]
        show_evaluation(found, console, where)


def show_evaluation(found: Mapping[str, Any], console: Terminal, where: list[str]) -> None:
    """Print a table for each cell and split, the slices, which versions these are, and a sentence for each pair."""
    for cell, of_models in found["scenarios"].items():
        splits = dict.fromkeys(split for each in of_models.values() for split in each["splits"])
        for split in splits:
            console.print(metrics_table(console, cell, split, of_models))
            for table in slice_tables(console, cell, split, of_models, found["metric"]):
                console.print(table)
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
    for text in _caveats(found):
        console.print(text, soft_wrap=True)
    models = "1 model" if len(found["models"]) == 1 else f"{len(found['models'])} models"
    console.print(f"{models}, {found['seconds']:.0f} s")
    for line in where:
        console.print(line, soft_wrap=True)


def _caveats(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield which tasks are among the train tasks, where some are, and how well the models predict other texts."""
    for cell, splits in found.get("contamination", {}).items():
        for each in (split for split in splits.values() if split["exact"] + split["overlapping"]):
            clean = {label: scores["all"]["clean"] for label, scores in each["scores"].items() if "all" in scores}
            told = ", ".join(f"{label} {score['mean']:.3f}" for label, score in clean.items() if score)
            yield f"{cell}: {each['sentence']}" + (f" {found['metric']} on the others: {told}." if told else "")
    for pair in found.get("forgetting", {}).get("pairs", []):
        yield from pair["sentences"]


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
