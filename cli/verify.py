"""The part of `rlft doctor --verify`: reads all that a home's runs have stored, and says what is damaged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlops.display.terminal import Terminal, styled
from mlops.home.databases import MLFLOW, ZENML
from mlops.home.faults import check_home
from mlops.home.folder import Home
from mlops.registry.stored import damaged_versions
from mlops.stored.verification import verify_artifacts
from rlft.errors import FormatVersionError, RlftError


def verify_stored(home: Home) -> dict[str, Any]:
    """Return how many `artifacts` there are, how many of them `without_seal`, and the `damages`, of versions too.

    `others` are artifacts in a format that is not read. A damage, as these, says `where` it is, `what` is wrong and
    what to do (`fix`). Raises StorageError if ZenML's database cannot be read.
    """
    check_home(home, [ZENML])
    found = verify_artifacts(home)
    problems: list[RlftError] = [*found.damages, *found.others]
    if MLFLOW.file(home).is_file():
        problems += damaged_versions(home.tracking_uri)
    told = [_told(each) for each in problems if not isinstance(each, FormatVersionError)]
    others = [_told(each) for each in problems if isinstance(each, FormatVersionError)]
    return {"artifacts": found.artifacts, "without_seal": found.without_seal, "damages": told, "others": others}


def _told(error: RlftError) -> dict[str, str]:
    return {"where": error.where, "what": error.what, "fix": error.fix}


def show_verified(verified: Mapping[str, Any], console: Terminal) -> None:
    """Print a line for each damage, and how much was read."""
    damages, unsealed = verified["damages"], verified["without_seal"]
    for damage in damages:
        line = f"{damage['where']}: {damage['what']}; {damage['fix']}"
        console.print(styled("damaged", "red"), line, soft_wrap=True)
    for other in verified["others"]:
        console.print(
            styled("not read", "yellow"), f"{other['where']}: {other['what']}; {other['fix']}", soft_wrap=True
        )
    without = f", of which {unsealed} have no seal: an earlier version stored them" if unsealed else ""
    console.print(f"{verified['artifacts']} artifacts{without}; {len(damages)} files are damaged", soft_wrap=True)
