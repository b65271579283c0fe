"""Removes runs from MLflow, from ZenML, and their files, after a plan of what goes, and why something stays.

A result that a run took from the cache belongs to all runs that use it, and goes with the last of them. All of it can
be done twice, and a run's folder goes last: until then it is listed, and the same command ends a removal that was cut
short. ZenML and MLflow are asked by their clients, which `mlops.stacks.stack.connect` must have connected.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mlops.home.databases import ZENML
from mlops.home.folder import Home
from mlops.home.processes import claimed, removal_lock
from mlops.ids import PARENT_TAG, SWEEP_TAG
from mlops.runs.listing import ListedRun, list_runs
from mlops.runs.store import RunStore
from rlft.errors import RlftError, StorageError

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


SETTLE_SECONDS = 3.0
"""Seconds that a run which has just taken a result from the cache may need to note that it uses it."""
_TRACES_AT_ONCE = 100


def remove_runs(home: Home, plan: Plan, *, settle: float = SETTLE_SECONDS) -> Plan:
    """Remove the runs of a plan; returns what was removed.

    All is looked at once more before: a run that has begun since, or that another process goes on with, is kept. Raises
    StorageError if another process removes runs of this home, or if a file cannot be changed.
    """
    try:
        with removal_lock(home), ExitStack() as held:
            free, taken = _claim(home, plan.runs, held)
            again = make_plan(home, free, resumable_too=True)  # the plan has left out those that shall stay
            again.kept = [*plan.kept, *taken, *again.kept]
            if again.runs:
                _remove_from_mlflow(home, again)
                _remove_from_zenml(home, again, settle)
                for file in (file for run in again.runs for file in own_files(home, run)):
                    _remove_path(home, str(file))
            return again
    except OSError as cause:
        fix = "mend this, then give the same command again"
        raise StorageError(f"the removal was cut short: {cause}", where=str(home.root), fix=fix) from cause


def _claim(
    home: Home, asked: Sequence[ListedRun], held: ExitStack
) -> tuple[list[ListedRun], list[tuple[ListedRun, str]]]:
    """Hold the names of runs, so that none is resumed meanwhile; returns them as they are now, and the others."""
    free: list[ListedRun] = []
    taken: list[tuple[ListedRun, str]] = []
    for name, run in {run.name: run for run in asked}.items():
        try:
            held.enter_context(claimed(home, name, None))
            free.append(run)
        except RlftError as other:
            taken.append((run, other.what))
    names = {run.name for run in free}
    return [run for run in list_runs(home).runs if run.name in names], taken


def _remove_from_mlflow(home: Home, plan: Plan) -> None:
    """Remove traces for good, and put runs and logged models among what MLflow has deleted, which `mlflow gc` removes.

    The last run of a sweep takes the run of the sweep with it.
    """
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    client = MlflowClient(home.tracking_uri)
    for model, place in plan.models.items():
        _remove_path(home, place)
        client.delete_logged_model(model)
    for run_id in dict.fromkeys(one for run in plan.runs for one in run.mlflow_runs):
        with suppress(MlflowException):  # somebody has removed it in MLflow
            run = client.get_run(run_id)
            _remove_traces(client, run)
            if run_id in plan.mlflow_runs:
                _remove_path(home, plan.mlflow_runs[run_id])
                client.delete_run(run_id)
                _remove_sweep(client, run)


def _remove_traces(client: Any, run: Any) -> None:
    experiment, run_id = run.info.experiment_id, run.info.run_id
    found = {"locations": [experiment], "run_id": run_id, "include_spans": False, "max_results": _TRACES_AT_ONCE}
    while traces := client.search_traces(**found):
        client.delete_traces(experiment, trace_ids=[trace.info.trace_id for trace in traces])


def _remove_sweep(client: Any, run: Any) -> None:
    """Remove the run of a sweep that has ended and has no runs left."""
    if above := run.data.tags.get(PARENT_TAG):
        sweep, others = client.get_run(above), f"tags.`{PARENT_TAG}` = '{above}'"
        is_over = SWEEP_TAG in sweep.data.tags and sweep.info.status != "RUNNING"
        if is_over and not client.search_runs([run.info.experiment_id], others, max_results=1):
            client.delete_run(above)


def _remove_from_zenml(home: Home, plan: Plan, settle: float) -> None:
    """Remove runs and the artifacts that only they had: a run that goes on may have taken one in the last seconds."""
    from zenml.client import Client
    from zenml.utils.pagination_utils import depaginate

    client, steps = Client(), set[str]()
    for attempt in (attempt for run in plan.runs for attempt in run.attempts):
        with suppress(KeyError):  # an earlier removal has come so far
            version = client.get_pipeline_run(attempt.id).model_version
            steps |= {str(step.id) for step in depaginate(client.list_run_steps, pipeline_run_id=attempt.id, size=PAGE)}
            client.delete_pipeline_run(attempt.id)
            if version is not None and not client.list_pipeline_runs(model_version_id=version.id, size=1):
                client.delete_model_version(version.id)
    time.sleep(settle)
    unused = depaginate(client.list_artifact_versions, only_unused=True, size=PAGE)
    for artifact in (artifact for artifact in unused if artifact.id in plan.artifacts):
        _remove_path(home, artifact.uri)
        client.delete_artifact_version(artifact.id)
    # What a step had begun to write when its process was killed lies in STORE/STEP/OUTPUT/ID OF THE STEP'S RUN.
    for folder in (home.root / "zenml/local_stores").glob("*/*/*/*"):
        if folder.name in steps and not client.list_artifact_versions(uri=f"startswith:{folder}/", size=1):
            _remove_path(home, str(folder))


def _remove_path(home: Home, place: str) -> None:
    """Remove a file or folder of the home; links are not followed, and what lies elsewhere is never removed."""
    for path in within(home, [place])[0]:
        if path.is_dir():
            shutil.rmtree(path)
            if not any(path.parent.iterdir()):
                path.parent.rmdir()  # that of the step's call, which has an id of its own
        else:
            path.unlink(missing_ok=True)
