"""Converts tasks, rollouts and rewards to Arrow tables, which are stored as parquet, and back without loss.

Nested values are JSON text in columns; token ids, masks and log-probabilities are lists and come back bit for bit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from rlft.outcome import Failure, as_text
from rlft.types import Judging, Report, Reward, Rewards, Rollout, Rollouts, Task, TaskSet, formats

_TEXT, _INT, _BOOL, _FLOAT = pa.string(), pa.int64(), pa.bool_(), pa.float64()
_JSON = pa.string()
_Report = TypeVar("_Report", bound=Report)
_Row = TypeVar("_Row")

TASK_SCHEMA = pa.schema(
    {
        "id": _TEXT,
        "environment": _TEXT,
        "prompt": _JSON,
        "answer": _JSON,
        "info": _JSON,
        "split": _TEXT,
        "group": _TEXT,
        "question_key": _TEXT,
    }
)
ROLLOUT_SCHEMA = pa.schema(
    {
        "rollout_id": _TEXT,
        "task_id": _TEXT,
        "sample": _INT,
        "round": _INT,
        "messages": _JSON,
        "token_ids": pa.list_(pa.int32()),
        "loss_mask": pa.list_(_BOOL),
        "logprobs": pa.list_(pa.float32()),
        "prompt_length": _INT,
        "turns": _INT,
        "tool_calls": _INT,
        "tool_errors": _INT,
        "state": _JSON,
        "stop_reason": _TEXT,
        "truncated": _BOOL,
        "error": _TEXT,
        "seconds": _FLOAT,
        "policy": _TEXT,
        "sampling": _TEXT,
        "environment": _TEXT,
        "seed": _INT,
    }
)
REWARD_SCHEMA = pa.schema(
    {
        "rollout_id": _TEXT,
        "task_id": _TEXT,
        "total": _FLOAT,
        "parts": _JSON,
        "solved": _BOOL,
        "answer": _TEXT,
        "error": _TEXT,
        "seconds": _FLOAT,
        "steps": _JSON,
        "judging": _JSON,
    }
)
_JSON_COLUMNS = {"prompt", "answer", "info", "messages", "state", "parts", "steps", "judging"}
_ARRAY_COLUMNS = {"token_ids": np.int32, "loss_mask": np.bool_, "logprobs": np.float32}
_FAILURE_COLUMNS = {"error"}  # a `Failure`, stored as text
_CLOCK_COLUMNS = {"seconds", "judging"}  # left out of hashes, so that equal results of different runs have equal ones


def table_of(content: bytes) -> pa.Table:
    """Return the table in the bytes of a parquet file."""
    return pq.ParquetFile(pa.BufferReader(content)).read()  # `read_table` imports pandas


def report_of(content: bytes, kind: type[_Report]) -> _Report:
    """Return the report of this kind in JSON; lists become tuples again where its type says so.

    Raises FormatVersionError, and ValueError for what is no such report.
    """
    stored = json.loads(content)
    formats.REPORT.check(stored.pop(formats.KEY, None))
    return TypeAdapter(kind).validate_python(stored)


def tasks_to_table(task_set: TaskSet) -> pa.Table:
    """Return tasks as a table, with fingerprint and notes in its metadata."""
    extra = {"fingerprint": task_set.fingerprint, "notes": _dump(task_set.notes)}
    return _to_table(task_set.tasks, TASK_SCHEMA, extra, formats.TASKS)


def tasks_from_table(table: pa.Table) -> TaskSet:
    """Return the tasks of a table that `tasks_to_table` made.

    Raises FormatVersionError, as all readers here do, for a table in a format that is not read.
    """
    extra = _metadata(table, formats.TASKS)
    rows = _from_table(table, lambda row: Task(**{**row, "prompt": tuple(row["prompt"])}))
    return TaskSet(tasks=rows, fingerprint=extra["fingerprint"], notes=json.loads(extra["notes"]))


def rollouts_to_table(rollouts: Rollouts) -> pa.Table:
    """Return rollouts as a table, with wall seconds and metrics of all of them in its metadata."""
    extra = {"seconds": repr(rollouts.seconds), "metrics": _dump(rollouts.metrics)}
    return _to_table(rollouts.rows, ROLLOUT_SCHEMA, extra, formats.ROLLOUTS)


def rollouts_from_table(table: pa.Table) -> Rollouts:
    """Return the rollouts of a table that `rollouts_to_table` made."""
    extra = _metadata(table, formats.ROLLOUTS)
    rows = _from_table(table, _rollout)
    return Rollouts(rows=rows, seconds=float(extra["seconds"]), metrics=json.loads(extra["metrics"]))


def rewards_to_table(rewards: Rewards) -> pa.Table:
    """Return rewards as a table, with weights, wall seconds and ranges in its metadata."""
    extra = {
        "weights": _dump(rewards.weights),
        "seconds": repr(rewards.seconds),
        "ranges": _dump(rewards.ranges),
        "step_weights": _dump(rewards.step_weights),
        "members": _dump(rewards.members),
    }
    return _to_table(rewards.rows, REWARD_SCHEMA, extra, formats.REWARDS)


def rewards_from_table(table: pa.Table) -> Rewards:
    """Return the rewards of a table that `rewards_to_table` made."""
    extra = _metadata(table, formats.REWARDS)
    rows = _from_table(table, _reward)
    ranges = {name: (low, high) for name, (low, high) in json.loads(extra["ranges"]).items()}
    weights, steps, members = (json.loads(extra[name]) for name in ("weights", "step_weights", "members"))
    return Rewards(rows, weights, float(extra["seconds"]), ranges, steps, tuple(members))


def _reward(row: dict[str, Any]) -> Reward:
    steps = {name: tuple(scores) for name, scores in row.pop("steps").items()}
    asked = row.pop("judging")
    return Reward(**row, steps=steps, judging=asked and Judging(**asked))


def hash_rows(rows: Iterable[Any], schema: pa.Schema, *extra: str) -> str:
    """Return the sha256 (hexadecimal) of the rows in the columns of `schema` without clocks, and of `extra`."""
    digest = hashlib.sha256("\x1f".join(extra).encode())
    names = [name for name in schema.names if name not in _CLOCK_COLUMNS]
    for row in rows:
        for name in names:
            value = _plain(name, getattr(row, name))
            digest.update(value.tobytes() if name in _ARRAY_COLUMNS else _dump(value).encode())
            digest.update(b"\x1e")
    return digest.hexdigest()


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _to_table(rows: Iterable[Any], schema: pa.Schema, extra: dict[str, str], kind: formats.Format) -> pa.Table:
    """Return rows as a table, with its format version and `extra` as metadata."""
    rows = list(rows)
    columns = []
    for field in schema:
        values = [_plain(field.name, getattr(row, field.name)) for row in rows]
        if field.name in _JSON_COLUMNS:
            # Keys are not sorted as they are for a hash, so that arguments of calls stay as they were written.
            values = [json.dumps(value, ensure_ascii=False) for value in values]
        columns.append(pa.array(values, type=field.type))
    return pa.Table.from_arrays(columns, schema=schema.with_metadata({**extra, formats.KEY: str(kind.version)}))


def _from_table(table: pa.Table, build: Callable[[dict[str, Any]], _Row]) -> tuple[_Row, ...]:
    columns: dict[str, list[Any]] = {}
    for name in table.column_names:
        values = table.column(name).to_pylist()
        if name in _JSON_COLUMNS:
            values = [json.loads(value) for value in values]
        elif name in _ARRAY_COLUMNS:
            values = [np.asarray(value, dtype=_ARRAY_COLUMNS[name]) for value in values]
        elif name in _FAILURE_COLUMNS:
            values = [None if value is None else Failure.read(value) for value in values]
        columns[name] = values
    return tuple(build(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True))


def _plain(name: str, value: Any) -> Any:
    if name == "judging":
        return value and asdict(value)
    return as_text(value) if name in _FAILURE_COLUMNS else value


def _rollout(row: dict[str, Any]) -> Rollout:
    return Rollout(**{**row, "messages": tuple(row["messages"])})


def _metadata(table: pa.Table, kind: formats.Format) -> dict[str, str]:
    """Return the metadata of a table, whose format version is looked at first."""
    extra = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    kind.check(extra.get(formats.KEY))
    return extra
