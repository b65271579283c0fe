"""Plans the removal of runs: which may go, what of ZenML and MLflow goes with them, and how many bytes that frees.

A result that a run took from the cache belongs to all runs that use it, and goes with the last of them.
"""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mlops.home.databases import ZENML
from mlops.home.folder import Home
from mlops.runs.listed import ListedRun
from mlops.runs.store import RunStore

_MOVE = "remove the alias first, on the page of the model in MLflow (`rlft ui`), or let a newer version take it"
PAGE = 1000  # of what ZenML lists
_RUNS_AT_ONCE = 100  # in a question to SQLite, which joins at most 500 selections
_OF_AN_ATTEMPT = (".json", ".missed.json", ".process.json", ".calls", ".evaluation.json", ".replay.json")


@dataclass(slots=True)
class Plan:
    """What is to be removed: runs, paths of files and folders in the home, and the bytes that this frees.

    `kept` are the runs that were asked for and stay, each with the reason; `elsewhere` are places outside the home, of
    which nothing is removed. `artifacts` are the places of ZenML's artifacts that these runs alone have, by id, and
    `mlflow_runs` and `models` those of MLflow's runs and logged models of which no registered version is made.
    """

    runs: list[ListedRun]
    kept: list[tuple[ListedRun, str]] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    bytes: int = 0
    artifacts: dict[Any, str] = field(default_factory=dict)
    mlflow_runs: dict[str, str] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)


def chosen_runs(runs: Sequence[ListedRun], *, keep_last: int | None, older_than: timedelta | None) -> list[ListedRun]:
    """Return the runs that are neither among the newest `keep_last` nor younger than `older_than`; `None` is no rule.

    `runs` come with the newest first.
    """
    now = datetime.now(UTC)
    old = runs if keep_last is None else runs[keep_last:]
    return [run for run in old if older_than is None or now - run.began > older_than]


def why_kept(run: ListedRun, *, resumable_too: bool) -> str | None:
    """Return why a run must stay, or `None`."""
    if run.status == "running":
        return "it goes on"
    if run.named:
        return f"{' and '.join(run.named)}; {_MOVE}"
    if run.is_resumable and not resumable_too:
        return "it can be resumed; name it in `rlft delete`, or give --failed"
    return None


def make_plan(home: Home, asked: Iterable[ListedRun], *, resumable_too: bool) -> Plan:
    """Plan the removal of these runs."""
    plan = Plan([])
    for run in asked:
        if reason := why_kept(run, resumable_too=resumable_too):
            plan.kept.append((run, reason))
        else:
            plan.runs.append(run)
    if plan.runs:
        plan.artifacts = _own_artifacts(home, plan.runs)
        _note_mlflow(home, plan)
        places = (place for found in (plan.artifacts, plan.models, plan.mlflow_runs) for place in found.values())
        plan.paths, plan.elsewhere = within(home, places)
        plan.paths += [file for run in plan.runs for file in own_files(home, run)]
        plan.bytes = freed_bytes(plan.paths)
    return plan


def _own_artifacts(home: Home, runs: Sequence[ListedRun]) -> dict[Any, str]:
    """Return the places of what no step of another run has made or read, by ZenML's ids of these artifacts.

    What a removal that was cut short has left of them, which is of no run in ZenML, is among them.
    """
    from zenml.client import Client
    from zenml.utils.pagination_utils import depaginate

    client, own = Client(), dict[Any, str]()
    going = {attempt.id for run in runs for attempt in run.attempts}
    found = partial(depaginate, client.list_artifact_versions, size=PAGE)
    noted = [stored for run in runs if (stored := RunStore(home).called(run.name))]
    places = {str(home.root / each["place"]) for stored in noted for _, each in stored.artifacts()}
    own |= {each.id: each.uri for each in found(only_unused=True) if each.uri in places}
    for attempt in going:
        own |= {each.id: each.uri for each in found(pipeline_run=attempt)}
    all_runs = depaginate(client.list_pipeline_runs, size=PAGE)
    others = [str(run.id) for run in all_runs if str(run.id) not in going]
    ids = f"oneof:{json.dumps([each.hex for each in own])}"
    for start in range(0, len(others), _RUNS_AT_ONCE):
        for shared in found(id=ids, pipeline_run=others[start : start + _RUNS_AT_ONCE]):
            own.pop(shared.id, None)
    return own


def _note_mlflow(home: Home, plan: Plan) -> None:
    """Note in a plan what goes in MLflow: runs and logged models of which no registered version is made."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    client = MlflowClient(home.tracking_uri)
    registered = _registered_places(client)
    for run_id in dict.fromkeys(one for run in plan.runs for one in run.mlflow_runs):
        with suppress(MlflowException):  # somebody has removed it in MLflow
            info = client.get_run(run_id).info
            for model in client.search_logged_models([info.experiment_id], f"source_run_id='{run_id}'"):
                plan.models[model.model_id] = model.artifact_location.removesuffix("/artifacts")
            plan.mlflow_runs[run_id] = (info.artifact_uri or "").removesuffix("/artifacts")
    for found in (plan.models, plan.mlflow_runs):
        for named in [one for one in found if any(one in place for place in registered)]:
            del found[named]


def _registered_places(client: Any) -> list[str]:
    """Return where files of the registry's versions lie; an id of a run or a logged model that they are of is in it."""
    found, token = [], None
    while token != "":
        page = client.search_model_versions(max_results=PAGE, page_token=token)
        found += [f"{each.source} {client.get_model_version_download_uri(each.name, each.version)}" for each in page]
        token = page.token or ""
    return found


def own_files(home: Home, run: ListedRun) -> list[Path]:
    """Return the files that a run has left in the home beside its databases and artifacts, its folder last."""
    ids = [attempt.id for attempt in run.attempts]
    files = [home.root / "runs" / f"{one}{end}" for one in ids for end in _OF_AN_ATTEMPT]
    files += [file for one in ids for file in (home.root / "runs").glob(f"{one}-*.missed.json")]  # of an evaluation
    return [file for file in files if file.is_file()] + list(filter(Path.is_dir, [home.root / "runs" / run.name]))


def within(home: Home, uris: Iterable[str]) -> tuple[list[Path], list[str]]:
    """Divide places into paths that are there in the home, and those that lie elsewhere or behind a link."""
    paths: list[Path] = []
    elsewhere: list[str] = []
    for uri in dict.fromkeys(uris):
        path = _local(uri)
        if path is None or not _is_a_part(home, path):
            elsewhere.append(uri)
        elif path.exists():
            paths.append(path)
    return paths, elsewhere


def _local(uri: str) -> Path | None:
    """Return the path that an address names; `None` for one of another kind."""
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file"):
        return None
    return Path(os.path.normpath(unquote(parts.path) if parts.scheme == "file" else uri))


def _is_a_part(home: Home, path: Path) -> bool:
    """Return whether a path lies deep in the home, no link leads out of it, and no database lies below it."""
    if not path.is_relative_to(home.root) or len(path.relative_to(home.root).parts) < 2:
        return False
    inner = [place for place in (path, *path.parents) if place.is_relative_to(home.root) and place != home.root]
    return not any(place.is_symlink() for place in inner) and not ZENML.file(home).is_relative_to(path)


def freed_bytes(paths: Iterable[Path]) -> int:
    """Return how many bytes removing paths frees. A file that has another name elsewhere (a hard link) frees none."""
    found = [each for path in paths for each in _files(path)]
    names = Counter((each.st_dev, each.st_ino) for each in found)
    sizes = {
        (each.st_dev, each.st_ino): each.st_size for each in found if names[each.st_dev, each.st_ino] >= each.st_nlink
    }
    return sum(sizes.values())


def _files(path: Path) -> Iterator[os.stat_result]:
    """Yield the regular files at or below a path; links are not followed."""
    names = (
        [path] if not path.is_dir() else [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    )
    for name in names:
        try:
            found = name.lstat()
        except OSError:  # a run that goes on may remove files of its own
            continue
        if stat.S_ISREG(found.st_mode):
            yield found
