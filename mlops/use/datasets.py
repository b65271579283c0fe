"""Records of an evaluation data set of MLflow as records of use."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from mlflow import MlflowClient
from mlflow.entities import DatasetRecord, EvaluationDataset

# MLflow's public way to the records of a data set takes the address from global state.
from mlflow.tracking._tracking_service.utils import _get_store

from mlops.use.traces import milliseconds
from rlft.errors import TaskError
from rlft.tasks.use import Record, Said

_WHERE = "tasks.use.dataset"


def find_records(
    tracking_uri: str, name: str, tags: Mapping[str, str], start: datetime | None, end: datetime | None
) -> tuple[Record, ...]:
    """Return the records of a data set that have all these tags and were made from `start` until before `end`.

    Raises TaskError if there is no data set of this name, or several, and what MLflow raises.
    """
    dataset = _find(MlflowClient(tracking_uri=tracking_uri), name)
    rows, _ = _get_store(tracking_uri)._load_dataset_records(dataset.dataset_id, max_results=None)
    found = (as_record(row) for row in rows)
    return tuple(record for record in found if _fits(record, tags, start, end))


def as_record(row: DatasetRecord) -> Record:
    """Return a row of a data set as a record. What is expected is the word of who wrote the row last."""
    person, time = row.last_updated_by or row.created_by or "", row.last_update_time or row.created_time
    expected = row.expectations or {}
    return Record(
        id=row.dataset_record_id,
        inputs=row.inputs,
        output=row.outputs,
        tags={key: str(value) for key, value in (row.tags or {}).items()},
        time=row.created_time,
        said=tuple(Said(person, "expectation", name, value, time) for name, value in expected.items()),
    )


def _find(client: MlflowClient, name: str) -> EvaluationDataset:
    found, token = list[EvaluationDataset](), None
    while True:
        page = client.search_datasets(page_token=token)  # in its filter a name with a quote could not be written
        found += [each for each in page if each.name == name]
        token = page.token
        if not token:
            break
    if not found:
        raise TaskError(f"MLflow has no data set {name!r}", where=_WHERE, fix="make it in MLflow, or correct the name")
    if len(found) > 1:
        ids = ", ".join(each.dataset_id for each in found)
        raise TaskError(f"MLflow has several data sets {name!r}: {ids}", where=_WHERE, fix="leave one of this name")
    return found[0]


def _fits(record: Record, tags: Mapping[str, str], start: datetime | None, end: datetime | None) -> bool:
    return (
        all(record.tags.get(key) == value for key, value in tags.items())
        and (start is None or record.time >= milliseconds(start))
        and (end is None or record.time < milliseconds(end))
    )
