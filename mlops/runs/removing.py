"""Removes runs from MLflow, from ZenML, and their files, and says why something stays.

A result that a run took from the cache belongs to all runs that use it, and goes with the last of them. All of it can
be done twice, and a run's folder goes last: until then it is listed, and the same command ends a removal that was cut
short. ZenML and MLflow are asked by their clients, which `mlops.stacks.stack.connect` must have connected.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlops.home.folder import Home
from mlops.home.processes import LOCK, NameHeldError, claimed
from mlops.runs.listing import ListedRun
from mlops.runs.store import RUN_FILE, RunStore
from rlft.errors import StorageError

_MOVE = "remove the alias first, on the page of the model in MLflow (`rlft ui`), or let a newer version take it"
_PAGE = 1000  # of what ZenML and MLflow list
_TRACES_AT_ONCE = 100
_MODELS = 50  # a run logs one for each version that it makes


@dataclass(slots=True)
class Plan:
    """The `runs` that are to be removed; `kept` are those that were asked for and stay, each with the reason."""

    runs: list[ListedRun] = field(default_factory=list)
    kept: list[tuple[ListedRun, str]] = field(default_factory=list)


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
    return plan


def _aliases(home: Home) -> dict[str, list[str]]:
    """Return what aliases of the registry name (`tiny 3 is champion`), by the MLflow runs of their versions."""
    from mlflow import MlflowClient

    from mlops.tracking.address import answering, pages

    found: dict[str, list[str]] = {}
    with answering(home.tracking_uri):
        client = MlflowClient(home.tracking_uri)
        for model in pages(client.search_registered_models):
            for alias, version in sorted(model.aliases.items()):
                run_id = client.get_model_version(model.name, str(version)).run_id
                found.setdefault(str(run_id), []).append(f"{model.name} {version} is {alias}")
    return found


def remove_runs(home: Home, plan: Plan) -> Plan:
    """Remove the runs of a plan; returns what was removed.

    A run that another process goes on with is kept. Raises StorageError if a file cannot be changed.
    """
    done = Plan(kept=list(plan.kept))
    try:
        for run in plan.runs:
            try:
                with claimed(home.run_folder(run.name)):  # so that it is not resumed meanwhile
                    _remove_from_mlflow(home, run)
                    _remove_from_zenml(home, run)
                    # A folder without run.json is no run to remove again, and one without its lock none to hold.
                    folder = home.run_folder(run.name)
                    for file in sorted(folder.glob("*"), key=lambda file: file.name == RUN_FILE):
                        if file.name != LOCK:
                            file.unlink()
                    remove_folder(home, folder)
                    done.runs.append(run)
            except NameHeldError as other:
                done.kept.append((run, other.what))
    except OSError as cause:
        fix = "mend this, then give the same command again"
        raise StorageError(f"the removal was cut short: {cause}", where=str(home.root), fix=fix) from cause
    return done


def _remove_from_mlflow(home: Home, run: ListedRun) -> None:
    """Remove traces for good, and let MLflow mark runs, and their models that are no version, as deleted.

    `mlflow gc` removes these with their files.
    """
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    client = MlflowClient(home.tracking_uri)
    for run_id in run.mlflow_runs:
        with suppress(MlflowException):  # somebody has removed it in MLflow
            _remove_traces(client, client.get_run(run_id))
            _remove_models(client, client.get_run(run_id))
            client.delete_run(run_id)


def _remove_traces(client: Any, run: Any) -> None:
    experiment, run_id = run.info.experiment_id, run.info.run_id
    found = {"locations": [experiment], "run_id": run_id, "include_spans": False, "max_results": _TRACES_AT_ONCE}
    while traces := client.search_traces(**found):
        client.delete_traces(experiment, trace_ids=[trace.info.trace_id for trace in traces])


def _remove_models(client: Any, run: Any) -> None:
    """Delete the models that a run has logged, and that are no registered version, by MLflow's tag or by its files."""
    files = {version.source for version in client.search_model_versions(f"run_id = '{run.info.run_id}'")}
    of_run = f"source_run_id = '{run.info.run_id}'"
    for model in client.search_logged_models([run.info.experiment_id], of_run, max_results=_MODELS):
        if "mlflow.modelVersions" not in model.tags and model.artifact_location not in files:
            client.delete_logged_model(model.model_id)


def _remove_from_zenml(home: Home, run: ListedRun) -> None:
    """Remove a run, and the artifacts that no other run has made or used.

    An artifact lies in STORE/STEP/OUTPUT/ID OF THE STEP'S RUN, and so does what a kill has left half written.
    """
    from zenml.client import Client
    from zenml.utils.pagination_utils import depaginate

    client, steps, own = Client(), set[str](), RunStore(home).called(run.name)
    places = own.places() if own else set[Path]()
    for other in RunStore(home).runs():
        if other.name != run.name:
            places -= other.places()  # it may go on, and have found in the cache what is stored as used at a step's end
    for attempt in run.attempts:
        with suppress(KeyError):  # an earlier removal has come so far
            found = depaginate(client.list_run_steps, pipeline_run_id=attempt.id, size=_PAGE)
            steps |= {str(step.id) for step in found}
            client.delete_pipeline_run(attempt.id)
    for artifact in depaginate(client.list_artifact_versions, only_unused=True, size=_PAGE):
        if Path(artifact.uri) in places or not steps.isdisjoint(Path(artifact.uri).parts):
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
