"""The part of `rlft doctor --verify`: reads all that a home's runs have stored, and prints what is damaged."""

from __future__ import annotations

import sqlite3

from mlops.display.terminal import Terminal, styled
from mlops.home.databases import MLFLOW
from mlops.home.folder import Home
from mlops.registry.stored import damaged_versions
from mlops.runs.verification import verify_artifacts
from rlft.errors import StorageError


def verify_stored(home: Home, console: Terminal) -> bool:
    """Check artifacts and registered versions; print a line for each damage. Returns False if there is any.

    Raises StorageError if ZenML's database cannot be read.
    """
    try:
        found = verify_artifacts(home)
    except sqlite3.Error as cause:
        fix = "`rlft doctor --restore` keeps what is left of it, and puts a copy or what can be saved in its place"
        raise StorageError(f"ZenML's database cannot be read: {cause}", where=str(home.root), fix=fix) from cause
    damages = list(found.damages)
    if MLFLOW.file(home).is_file():
        damages += damaged_versions(home.tracking_uri)
    for damage in damages:
        line = f"{damage.where}: {damage.what}; {damage.fix}"
        console.print(styled("damaged", "red"), line, soft_wrap=True)
    without = f", of which {found.without_seal} have no seal: an earlier version stored them" * bool(found.without_seal)
    console.print(f"{found.artifacts} artifacts{without}; {len(damages)} files are damaged", soft_wrap=True)
    return not damages
