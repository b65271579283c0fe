"""The tasks of a run as its MLflow run keeps them: hashes by split, by which later runs know them again.

They are an artifact, and a tag of the run holds its seal: so a file that was changed or removed is told.
"""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from pydantic import TypeAdapter, ValidationError

from mlops.registry.names import ABSENT
from rlft.gates.identity import task_hash
from rlft.types import SPLITS, Split, TaskSet

HASHES = "task_questions.json"
SEAL = "mlflow.rlft.task_questions"  # MLflow shows nobody what begins with `mlflow.`
logger = logging.getLogger(__name__)
_NOTED = TypeAdapter(dict[Split, list[str]])
_LOOKED_AT = 10  # the most runs that are asked for their tasks: each is a request


class Notebook(Protocol):
    """Writes into an MLflow run, as a tracker does."""

    def log_json(self, name: str, content: Any) -> None:
        """Write a JSON artifact."""
        ...

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        """Set tags of the run."""
        ...


@dataclass(frozen=True, slots=True)
class NotedTasks:
    """The hashes of a run's tasks by split, and the run's name."""

    run: str
    hashes: dict[Split, list[str]]


def note_tasks(tracker: Notebook, task_set: TaskSet) -> None:
    """Note the hashes of a run's tasks by split, as the artifact `HASHES`, and their seal as the tag `SEAL`."""
    hashes: dict[Split, list[str]] = {split: [task_hash(task) for task in task_set.split(split)] for split in SPLITS}
    tracker.log_json(HASHES, hashes)
    tracker.set_tags({SEAL: _seal(hashes)})


def trained_on(tracking_uri: str, run_id: str) -> frozenset[str] | None:
    """Return the hashes of the tasks that a run trained on; `None` if it has not noted them, is gone, or has noted
    what cannot be read.

    Raises as MLflow does.
    """
    client = MlflowClient(tracking_uri=tracking_uri)
    try:
        tags = client.get_run(run_id).data.tags
    except MlflowException as cause:
        if cause.error_code not in ABSENT:
            raise
        return None
    noted = _read(client, run_id, tags)
    return None if noted is None else frozenset(noted["train"])


def last_noted(tracking_uri: str, experiment_id: str, name: str, *, without: str) -> NotedTasks | None:
    """Return the tasks of the newest run of this name (`name` in the config) in an experiment that has noted them.

    `without` is the id of the run that asks. `None` if none of the last ten has. Raises as MLflow does.
    """
    client = MlflowClient(tracking_uri=tracking_uri)
    runs = client.search_runs([experiment_id], order_by=["attributes.start_time DESC"], max_results=50)
    others = (run for run in runs if run.info.run_id != without and run.data.tags.get("rlft.name") == name)
    for run, _ in zip(others, range(_LOOKED_AT), strict=False):
        if (noted := _read(client, run.info.run_id, run.data.tags)) is not None:
            return NotedTasks(run.info.run_name or run.info.run_id, noted)
    return None


def _read(client: MlflowClient, run_id: str, tags: Mapping[str, str]) -> dict[Split, list[str]] | None:
    """Return what a run with these tags has noted; `None`, with a warning, if that is not what it noted."""
    sealed = tags.get(SEAL)
    if all(file.path != HASHES for file in client.list_artifacts(run_id)):
        if sealed is not None:
            _warn(run_id, "was removed")
        return None
    with tempfile.TemporaryDirectory() as folder:
        content = Path(client.download_artifacts(run_id, HASHES, folder)).read_bytes()
    try:
        found = _NOTED.validate_json(content)
    except ValidationError as wrong:
        _warn(run_id, f"is damaged ({wrong.errors()[0]['msg']})")
        return None
    if sealed != _seal(found):
        _warn(run_id, "differs from the seal in its tag")
        return None
    return found if "train" in found else None


def _seal(hashes: Mapping[Split, Sequence[str]]) -> str:
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()


def _warn(run_id: str, what: str) -> None:
    logger.warning("%s of the MLflow run %s %s, so the tasks of that run are not known", HASHES, run_id, what)
