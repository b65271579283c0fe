"""Removes runs from MLflow, from ZenML, and their files, after a plan of what goes, and why something stays.

A result that a run took from the cache belongs to all runs that use it, and goes with the last of them. All of it can
be done twice, and a run's folder goes last: until then it is listed, and the same command ends a removal that was cut
short. ZenML and MLflow are asked by their clients, which `mlops.stacks.stack.connect` must have connected.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mlops.home.folder import Home
from mlops.home.processes import NameHeldError, claimed
from mlops.runs.listing import ListedRun, list_runs
from mlops.runs.store import RunStore
from rlft.errors import StorageError

_MOVE = "remove the alias first, on the page of the model in MLflow (`rlft ui`), or let a newer version take it"
_PAGE = 1000  # of what ZenML and MLflow list
_TRACES_AT_ONCE = 100


@dataclass(slots=True)
class Plan:
    """What is to be removed: runs, folders in the home, and the bytes that this frees.

    `kept` are the runs that were asked for and stay, each with the reason. `artifacts` are the folders of ZenML's
    artifacts that these runs alone have, and `mlflow_runs` and `models` those of MLflow's runs and logged models, by
    id, of which no registered version is made.
    """

    runs: list[ListedRun] = field(default_factory=list)
    kept: list[tuple[ListedRun, str]] = field(default_factory=list)
    artifacts: set[Path] = field(default_factory=set)
    mlflow_runs: dict[str, Path] = field(default_factory=dict)
    models: dict[str, Path] = field(default_factory=dict)
    bytes: int = 0


def why_kept(run: ListedRun, named: Sequence[str] = (), *, resumable_too: bool) -> str | None:
    """Return why a run must stay, or `None`; `named` says of each alias which of its versions that names."""
    if run.status == "running":
        return "it goes on"
    if named:
        return f"{' and '.join(named)}; {_MOVE}"
    if run.is_resumable and not resumable_too:
        return "it can be resumed; name it in `rlft delete`, or give --failed"
    return None


def make_plan(home: Home, asked: Iterable[ListedRun], *, resumable_too: bool) -> Plan:
    """Plan the removal of these runs. Raises TrackerError if the home's MLflow does not answer."""
    plan, asked = Plan(), list(asked)
    named = _aliases(home) if asked else {}
    for run in asked:
        own = [said for one in run.mlflow_runs for said in named.get(one, ())]
        if reason := why_kept(run, own, resumable_too=resumable_too):
            plan.kept.append((run, reason))
        else:
            plan.runs.append(run)
    if plan.runs:
        plan.artifacts = own_artifacts(home, plan.runs)
        _note_mlflow(home, plan)
        plan.bytes = freed_bytes([*plan.artifacts, *plan.models.values(), *plan.mlflow_runs.values()])
    return plan


def _aliases(home: Home) -> dict[str, list[str]]:
    """Return what aliases of the registry name (`tiny 3 is champion`), by the MLflow runs of their versions."""
    from mlflow import MlflowClient

    from mlops.tracking.address import answering

    found: dict[str, list[str]] = {}
    with answering(home.tracking_uri):
        client = MlflowClient(home.tracking_uri)
        for model in client.search_registered_models():
            for alias, version in sorted(model.aliases.items()):
                run_id = client.get_model_version(model.name, str(version)).run_id
                found.setdefault(str(run_id), []).append(f"{model.name} {version} is {alias}")
    return found


def own_artifacts(home: Home, runs: Sequence[ListedRun]) -> set[Path]:
    """Return the folders of what no other run of the home has made or used, as far as the runs have noted it."""
    going, found = {run.name for run in runs}, {True: set[Path](), False: set[Path]()}
    for run in RunStore(home).runs():
        found[run.name in going] |= run.places()
    return found[True] - found[False]


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
                plan.models[model.model_id] = _folder_of(model.artifact_location)
            plan.mlflow_runs[run_id] = _folder_of(info.artifact_uri or "")
    for found in (plan.models, plan.mlflow_runs):
        for named in [one for one in found if any(one in place for place in registered)]:
            del found[named]


def _folder_of(address: str) -> Path:
    """Return the folder in which MLflow keeps what lies at an address of artifacts."""
    path = Path(unquote(urlsplit(address).path))
    return path.parent if path.name == "artifacts" else path


def _registered_places(client: Any) -> list[str]:
    """Return where files of the registry's versions lie; an id of a run or a logged model that they are of is in it."""
    found, token = [], None
    while token != "":
        page = client.search_model_versions(max_results=_PAGE, page_token=token)
        found += [f"{each.source} {client.get_model_version_download_uri(each.name, each.version)}" for each in page]
        token = page.token or ""
    return found


def freed_bytes(folders: Iterable[Path]) -> int:
    """Return how many bytes removing folders frees; each name of a file (hard link) counts for its share."""
    files = (Path(place, name) for folder in folders for place, _, names in os.walk(folder) for name in names)
    return sum(found.st_size // found.st_nlink for found in map(os.lstat, files))


def remove_runs(home: Home, plan: Plan) -> Plan:
    """Remove the runs of a plan; returns what was removed.

    All is looked at once more before: a run that has begun since, or that another process goes on with, is kept. Raises
    StorageError if a file cannot be changed.
    """
    free, kept = set[str](), list(plan.kept)
    try:
        with ExitStack() as held:
            for run in plan.runs:
                try:  # so that it is not resumed meanwhile
                    held.enter_context(claimed(home.run_folder(run.name)))
                    free.add(run.name)
                except NameHeldError as other:
                    kept.append((run, other.what))
            now = [run for run in list_runs(home).runs if run.name in free]
            again = make_plan(home, now, resumable_too=True)  # the plan has left out those that shall stay
            again.kept = [*kept, *again.kept]
            if again.runs:
                _remove_from_mlflow(home, again)
                _remove_from_zenml(home, again)
            for run in again.runs:
                remove_folder(home, home.run_folder(run.name))
            return again
    except OSError as cause:
        fix = "mend this, then give the same command again"
        raise StorageError(f"the removal was cut short: {cause}", where=str(home.root), fix=fix) from cause


def _remove_from_mlflow(home: Home, plan: Plan) -> None:
    """Remove traces for good, and let MLflow mark runs and logged models as deleted, which `mlflow gc` removes."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    client = MlflowClient(home.tracking_uri)
    for model, folder in plan.models.items():
        remove_folder(home, folder)
        client.delete_logged_model(model)
    for run_id in dict.fromkeys(one for run in plan.runs for one in run.mlflow_runs):
        with suppress(MlflowException):  # somebody has removed it in MLflow
            run = client.get_run(run_id)
            _remove_traces(client, run)
            if run_id in plan.mlflow_runs:
                remove_folder(home, plan.mlflow_runs[run_id])
                client.delete_run(run_id)


def _remove_traces(client: Any, run: Any) -> None:
    experiment, run_id = run.info.experiment_id, run.info.run_id
    found = {"locations": [experiment], "run_id": run_id, "include_spans": False, "max_results": _TRACES_AT_ONCE}
    while traces := client.search_traces(**found):
        client.delete_traces(experiment, trace_ids=[trace.info.trace_id for trace in traces])


def _remove_from_zenml(home: Home, plan: Plan) -> None:
    """Remove runs and the artifacts that only they had.

    An artifact lies in STORE/STEP/OUTPUT/ID OF THE STEP'S RUN, and so does what a kill has left half written.
    """
    from zenml.client import Client
    from zenml.utils.pagination_utils import depaginate

    client, steps = Client(), set[str]()
    for attempt in (attempt for run in plan.runs for attempt in run.attempts):
        with suppress(KeyError):  # an earlier removal has come so far
            found = depaginate(client.list_run_steps, pipeline_run_id=attempt.id, size=_PAGE)
            steps |= {str(step.id) for step in found}
            client.delete_pipeline_run(attempt.id)
    for artifact in depaginate(client.list_artifact_versions, only_unused=True, size=_PAGE):
        if Path(artifact.uri) in plan.artifacts or not steps.isdisjoint(Path(artifact.uri).parts):
            remove_folder(home, Path(artifact.uri))
            client.delete_artifact_version(artifact.id)
    for folder in (home.root / "zenml/local_stores").glob("*/*/*/*"):
        if folder.name in steps and not client.list_artifact_versions(uri=f"startswith:{folder}/", size=1):
            remove_folder(home, folder)


def remove_folder(home: Home, folder: Path) -> None:
    """Remove a folder deep in the home, and the one that it was alone in; what lies elsewhere is never removed."""
    place = folder.resolve()  # without links
    if place.is_dir() and place.is_relative_to(home.root) and len(place.relative_to(home.root).parts) > 1:
        shutil.rmtree(place)
        if not any(place.parent.iterdir()):
            place.parent.rmdir()  # that of the step's call, which has an id of its own
