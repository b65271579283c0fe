"""`rlft review collect RUN`: what people said, as corrected answers, cases of a reward, and preferences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from cli.review.reviewed import open_run
from mlops.display.terminal import console, styled
from rlft.config.yaml_text import write_yaml
from rlft.errors import RlftError
from rlft.files import write_file

GOLDS, CASES, PAIRS = "golds.jsonl", "cases.yaml", "pairs.jsonl"


def collect(
    run: Annotated[str, typer.Argument(help="Id or name of a run, or the beginning of either.")],
    output: Annotated[
        Path | None, typer.Option(help="Folder for the files. Without it a folder of the run's name here, -review.")
    ] = None,
    stack: Annotated[str | None, typer.Option(help="The ZenML stack that the run used, if any.")] = None,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Write what people said in the review queues of a run into files that rlft reads.

    golds.jsonl has right answers by task, cases.yaml cases for a specification, and pairs.jsonl pairs of attempts with
    the better one, for `rlft reward agreement`. Where a run has several environments each has a folder of its own, as
    each has a reward of its own. Files of an earlier time are replaced.
    """
    with guarded(verbose, None):
        reviewed = open_run(run, stack)
        from mlops.review.said import collect as collected
        from mlops.runs.results import load_round
        from rlft.review.cases import cases
        from rlft.review.golds import golds
        from rlft.review.opinions import by_environment
        from rlft.review.preferences import preferences

        where = (reviewed.address, reviewed.experiment_id, reviewed.name)
        found = collected(*where, lambda number: load_round(reviewed.run, number), reviewed.tasks)
        if not found.queues:
            raise RlftError(f"{reviewed.name} has no review queue", where="RUN", fix=f"`rlft review {run}` makes one")
        files, split = dict[str, int](), list[str]()
        for name, opinions in by_environment(found.opinions).items():
            rows, undecided = golds(opinions)
            folder = (output or Path(f"{reviewed.name}-review")) / name
            files |= write_reviews(folder, rows, cases(opinions), preferences(opinions))
            split += undecided
        if as_json:
            counts = {"opinions": len(found.opinions), "waiting": found.waiting}
            console.write_json({**counts, "files": files, "split": split, "unread": found.unread})
            return
        said, left = _many(len(found.opinions), "opinion"), _many(found.waiting, "attempt")
        console.print(f"People gave {said}, and {left} {'is' if found.waiting == 1 else 'are'} waiting.")
        for name, count in files.items():
            console.print(f"{name}: {count}")
        if split:
            console.print(f"As many people gave one answer as another to {', '.join(split)}: these have no row.")
        for each in found.unread:
            console.print(styled(f"It was left out: {each}", "red"))


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def write_reviews(
    folder: Path,
    golds: Sequence[Mapping[str, Any]],
    cases: Sequence[Mapping[str, Any]],
    pairs: Sequence[Mapping[str, Any]],
) -> dict[str, int]:
    """Write a file for each kind of which there is any; returns {path: how many it has}."""
    lines = {GOLDS: golds, PAIRS: pairs}
    texts = {
        name: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        for name, rows in lines.items()
        if rows
    }
    if cases:
        texts[CASES] = write_yaml({"cases": list(cases)})
    if texts:
        folder.mkdir(parents=True, exist_ok=True)
    counts = {GOLDS: len(golds), CASES: len(cases), PAIRS: len(pairs)}
    for name, text in texts.items():
        write_file(folder / name, text)
    return {str(folder / name): counts[name] for name in texts}
