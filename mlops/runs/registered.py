"""The versions of a home's registry as rlft has last seen them, in a file: lists of runs show them without MLflow.

`runs/versions.registry.json`: {name of a model: [its versions, the newest first]}. It is written at the end of a run
and of every command that asks the registry of the home.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from mlops.home.folder import Home
from mlops.registry.changes import find_moves, read_changes, waits
from mlops.registry.names import CHAMPION
from mlops.runs.listed import ListedRun
from rlft.files import write_file

VERSIONS = "versions.registry.json"


def note_versions(home: Home) -> None:
    """Write down which versions a home's registry has, with their aliases. Raises what MLflow raises, and OSError."""
    from mlops.registry.client import RegistryClient

    client = RegistryClient(home.tracking_uri)
    found: dict[str, list[dict[str, Any]]] = {}
    models = {model.name: client.get_registered_model(model.name) for model in client.search_registered_models()}
    for version in client.all_versions():
        model, number = models[version.name], str(version.version)
        champion = str(model.aliases[CHAMPION]) if CHAMPION in model.aliases else None
        moves = find_moves(read_changes(model.tags), champion)
        marks = ["was champion"] if number != champion and any(move.to == number for move in moves) else []
        marks += ["waits for approval"] if waits(version.tags, number, moves) else []
        aliases = sorted(alias for alias, named in model.aliases.items() if str(named) == number)
        known = {"version": number, "mlflow_run_id": version.run_id, "aliases": aliases, "marks": marks}
        found.setdefault(version.name, []).append(known)
    for versions in found.values():
        versions.sort(key=lambda known: -int(known["version"]))
    write_file(_file(home), json.dumps(found, indent=1))


def noted_versions(home: Home) -> list[tuple[str, dict[str, Any]]]:
    """Return the versions that were noted, each with the name of its model. Raises ValueError and OSError."""
    try:
        found = json.loads(_file(home).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return [(name, version) for name, versions in found.items() for version in versions]


def with_versions(run: ListedRun, versions: list[tuple[str, dict[str, Any]]]) -> ListedRun:
    """Add the newest version that a run has registered, and the aliases of all of them."""
    own = [(name, known) for name, known in versions if known["mlflow_run_id"] in run.mlflow_runs]
    if not own:
        return run
    name, newest = own[0]
    named = sorted(
        (alias, f"{name} {known['version']} is {alias}") for name, known in own for alias in known["aliases"]
    )
    return dataclasses.replace(
        run,
        version=(name, newest["version"]),
        aliases=tuple(dict.fromkeys(alias for alias, _ in named)),
        named=tuple(said for _, said in named),
        marks=tuple(newest["marks"]),
    )


def _file(home: Home) -> Path:
    return home.root / "runs" / VERSIONS
