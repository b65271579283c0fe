"""Removes runs from a home: from MLflow, from ZenML, and their files.

All of it can be done twice, and a run's folder goes last: until then it is listed, and the same command ends a removal
that was cut short.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from mlops.home.folder import Home
from mlops.home.locks import removal_lock
from mlops.home.processes import claimed
from mlops.ids import PARENT_TAG, SWEEP_TAG
from mlops.removal.plan import PAGE, Plan, make_plan, own_files, within
from mlops.runs.listed import ListedRun
from mlops.runs.listing import list_runs
from mlops.stored.verification import seal_file
from rlft.errors import RlftError, StorageError

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
        if (seal := seal_file(home, Path(artifact.uri))) is not None:
            _remove_path(home, str(seal))
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
