"""The tasks of a run as its MLflow run keeps them: hashes by split, by which later runs know them again."""

from __future__ import annotations

import logging
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from pydantic import TypeAdapter, ValidationError

from mlops.registry.names import ABSENT
from rlft.gates.identity import task_hash
from rlft.types import SPLITS, Split, TaskSet

HASHES = "task_questions.json"
logger = logging.getLogger(__name__)
_NOTED = TypeAdapter(dict[Split, list[str]])
_LOOKED_AT = 10  # the most runs that are asked for their tasks: each is a request


@dataclass(frozen=True, slots=True)
class NotedTasks:
    """The hashes of a run's tasks by split, and the run's name."""

    run: str
    hashes: dict[Split, list[str]]


def hashes_by_split(task_set: TaskSet) -> dict[Split, list[str]]:
    """Return {split: hashes of its tasks}, which is written as a run's artifact `HASHES`."""
    return {split: [task_hash(task) for task in task_set.split(split)] for split in SPLITS}


def trained_on(tracking_uri: str, run_id: str) -> frozenset[str] | None:
    """Return the hashes of the tasks that a run trained on; `None` if it has not noted them, is gone, or has noted
    what cannot be read.

    Raises as MLflow does.
    """
    noted = _read(MlflowClient(tracking_uri=tracking_uri), run_id)
    return None if noted is None else frozenset(noted["train"])


def last_noted(tracking_uri: str, experiment_id: str, name: str, *, without: str) -> NotedTasks | None:
    """Return the tasks of the newest run of this name (`name` in the config) in an experiment that has noted them.

    `without` is the id of the run that asks. `None` if none of the last ten has. Raises as MLflow does.
    """
    client = MlflowClient(tracking_uri=tracking_uri)
    runs = client.search_runs([experiment_id], order_by=["attributes.start_time DESC"], max_results=50)
    others = (run for run in runs if run.info.run_id != without and run.data.tags.get("rlft.name") == name)
    for run, _ in zip(others, range(_LOOKED_AT), strict=False):
        if (noted := _read(client, run.info.run_id)) is not None:
            return NotedTasks(run.info.run_name or run.info.run_id, noted)
    return None


def _read(client: MlflowClient, run_id: str) -> dict[Split, list[str]] | None:
    try:
        noted = any(file.path == HASHES for file in client.list_artifacts(run_id))
    except MlflowException as cause:
        if cause.error_code not in ABSENT:
            raise
        return None
    if not noted:
        return None
    with tempfile.TemporaryDirectory() as folder:
        content = Path(client.download_artifacts(run_id, HASHES, folder)).read_bytes()
    try:
        found = _NOTED.validate_json(content)
    except ValidationError as wrong:
        logger.warning(
            "%s of the run %s is damaged, so its tasks are not known: %s", HASHES, run_id, wrong.errors()[0]["msg"]
        )
        return None
    return found if "train" in found else None
