"""The part of `rlft doctor --verify`: reads all that a home's runs have stored, and says what is damaged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlops.home.databases import MLFLOW, ZENML, check_home
from mlops.home.folder import Home
from mlops.registry.client import damaged_versions
from mlops.runs.store import RunStore
from rlft.errors import FormatVersionError, RlftError
from rlft.terminal import Terminal, styled


def verify_stored(home: Home) -> dict[str, Any]:
    """Return how many `artifacts` there are, and the `damages`, of versions too.

    `others` are what is in a format that is not read. A damage says `where` it is, `what` is wrong and what to do
    (`fix`). Raises StorageError if ZenML's database cannot be read.
    """
    check_home(home, [ZENML])
    store, problems, seen = RunStore(home), list[RlftError](), set[str]()
    for run in reversed(store.runs()):
        for step, artifact in run.artifacts():
            if artifact["place"] not in seen:  # one that several runs share counts for the oldest of them
                seen.add(artifact["place"])
                problems += run.damages(artifact, step)
    if MLFLOW.file(home).is_file():
        problems += damaged_versions(home.tracking_uri)
    told = [_told(each) for each in problems if not isinstance(each, FormatVersionError)]
    others = [_told(each) for each in problems if isinstance(each, FormatVersionError)]
    return {"artifacts": len(seen), "damages": told, "others": others, "problems": store.problems}


def _told(error: RlftError) -> dict[str, str]:
    return {"where": error.where, "what": error.what, "fix": error.fix}


def show_verified(verified: Mapping[str, Any], console: Terminal) -> None:
    """Print a line for each damage, and how much was read."""
    for damage in (damages := verified["damages"]):
        line = f"{damage['where']}: {damage['what']}; {damage['fix']}"
        console.print(styled("damaged", "red"), line, soft_wrap=True)
    for other in verified["others"]:
        console.print(
            styled("not read", "yellow"), f"{other['where']}: {other['what']}; {other['fix']}", soft_wrap=True
        )
    for problem in verified["problems"]:
        console.print(styled("not read", "yellow"), problem, soft_wrap=True)
    console.print(f"{verified['artifacts']} artifacts; {len(damages)} files are damaged", soft_wrap=True)
