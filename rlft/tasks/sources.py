"""Reads rows with their places from files and data sets, without interpreting them.

A row that cannot be read is a `BadRow` with the reason; a source that cannot be read is a `TaskError`.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from rlft.config import SourceConfig, TasksConfig
from rlft.errors import TaskError
from rlft.files import json_line, why_no_file
from rlft.progress import Progress, silent
from rlft.tasks.splits import Claims


@dataclass(frozen=True, slots=True)
class RawRow:
    """A row as its source has it, and its place (`tasks.jsonl:17`; lines and rows count from 1).

    `info`, if given, becomes the `info` of the task instead of the whole row.
    """

    place: str
    row: dict[str, Any]
    info: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be used: its place and the reason."""

    place: str
    reason: str


@dataclass(slots=True)
class BadRows:
    """Collects the bad rows found so far; `limit` is how many of them are allowed (`tasks.max_bad_rows`)."""

    limit: int
    rows: list[BadRow] = field(default_factory=list)
    shown = 20  # most reasons that an error lists

    def check(self, where: str) -> None:
        """Raise `TaskError`, with places and reasons, if there are more bad rows than allowed."""
        if len(self.rows) <= self.limit:
            return
        first = {bad.reason: bad.place for bad in reversed(self.rows)}
        counted = Counter(bad.reason for bad in self.rows).items()
        lines = [f"  {first[why]}: {why}{f' (and {n - 1} more rows)' * (n > 1)}" for why, n in counted]
        more = len(lines) - self.shown
        lines[self.shown :] = [f"  and {more} more kinds"] if more > 0 else []
        raise TaskError(
            f"{len(self.rows)} bad rows, {self.limit} allowed:\n" + "\n".join(lines),
            where=where,
            fix="correct these rows or the field names in `tasks`, or allow so many with tasks.max_bad_rows",
        )


@dataclass(slots=True)
class Reading:
    """Holds what all sources of a set of tasks share: whose tasks they are, bad rows, and what splits have claimed."""

    environment: str
    bad: BadRows
    claims: Claims = field(default_factory=Claims)
    progress: Progress = silent


def read_rows(source: SourceConfig, *, count: int | None = None) -> Iterator[RawRow | BadRow]:
    """Yield the rows of a file or data set in their order, bad ones included; at most `count` of them (`None`: all).

    Files are opened when the first row is asked for. Raises `TaskError` if the source is missing, empty or unreadable.
    The rows of a generator are drawn by `rlft.tasks.reasoning_gym.draw_rows`.
    """
    readers = {"jsonl": _read_jsonl, "csv": _read_csv, "parquet": _read_parquet, "huggingface": _read_huggingface}
    where, is_empty = describe_source(source), True
    path = Path(source.path or "")
    if source.source != "huggingface" and (problem := why_no_file(path)):
        raise TaskError(problem, where=str(path), fix="name a file in tasks.path that can be read as often as needed")
    try:
        for row in islice(readers[source.source](source), count):
            is_empty = False
            yield row
    except Exception as error:  # files that are no such thing, missing data sets, no network: each library has its own
        raise TaskError(
            f"cannot be read: {type(error).__name__}: {error}",
            where=where,
            fix="check tasks.source, tasks.path and what it names, and for a data set of the Hub the network, "
            "tasks.subset, tasks.hub_split and tasks.revision; a folder that it was downloaded to does as well",
        ) from error
    if is_empty:
        raise TaskError("there are no rows in it", where=where, fix="check that tasks.path names the right data")


def describe_source(source: SourceConfig) -> str:
    """Return the source in one line, such as `jsonl data/train.jsonl` or `reasoning_gym chain_sum`."""
    name = source.generator if source.source == "reasoning_gym" else source.path
    details = [source.source, name]
    if source.source == "huggingface":
        details += [source.subset, source.hub_split, source.revision and f"@{source.revision}"]
    return " ".join(detail for detail in details if detail)


def describe_tasks(tasks: TasksConfig) -> str:
    """Return the source of a run's tasks in one line, and that of tasks from use, or of each environment."""
    if tasks.members is not None:
        return "; ".join(f"{name}: {describe_source(each)}" for name, each in tasks.members.items())
    use = tasks.use
    more = f" and the traces of {use.experiment}" if use is not None else ""
    return describe_source(tasks) + more


def _read_jsonl(source: SourceConfig) -> Iterator[RawRow | BadRow]:
    path = Path(source.path or "")
    # Bytes, as they are split at \n alone: splitlines() of text also splits at U+2028 or U+0085 within a string.
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _parse_json_line(f"{path.name}:{number}", line)


def _parse_json_line(place: str, line: bytes) -> RawRow | BadRow:
    try:
        row = json_line(line)
    except UnicodeDecodeError as error:
        return BadRow(place, f"is not UTF-8: byte 0x{line[error.start]:02x} at byte {error.start + 1} of the line")
    except (ValueError, RecursionError) as error:
        return BadRow(place, f"{error}" if type(error) is ValueError else f"is not JSON: {error}")
    if not isinstance(row, dict):
        return BadRow(place, f"is a JSON {type(row).__name__}, not an object with named fields")
    return RawRow(place, row)


def _read_csv(source: SourceConfig) -> Iterator[RawRow | BadRow]:
    """Yield the rows of a CSV file. Cells stay text: `007` has three characters, and an empty cell is an empty text."""
    path = Path(source.path or "")
    with path.open(encoding="utf-8-sig", newline="") as file:
        csv.field_size_limit(2**31 - 1)  # the default of 131,072 characters would refuse a long document
        reader = csv.reader(file, strict=True)
        header = next(reader, [])
        if len(set(header)) < len(header) or not all(header):
            raise ValueError(f"columns need different, non-empty names; the first line is {header}")
        for cells in reader:
            place = f"{path.name}:{reader.line_num}"
            if len(cells) == len(header):
                yield RawRow(place, dict(zip(header, cells, strict=True)))
            elif cells:
                yield BadRow(place, f"has {len(cells)} cells, the header has {len(header)}")


def _read_parquet(source: SourceConfig) -> Iterator[RawRow | BadRow]:
    import pyarrow.parquet as pq

    path, number = Path(source.path or ""), 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=1000):  # small, so that few more rows are read than asked for
            for row in batch.to_pylist():
                number += 1
                yield RawRow(f"{path.name}:{number}", row)


def _read_huggingface(source: SourceConfig) -> Iterator[RawRow | BadRow]:
    """Yield the rows of one split of a data set from the Hub, a folder, or a saved data set (`save_to_disk`)."""
    import datasets

    path = Path(source.path or "")
    if (path / "state.json").exists() or (path / "dataset_dict.json").exists():
        saved = datasets.load_from_disk(str(path))
        rows = saved[source.hub_split] if isinstance(saved, datasets.DatasetDict) else saved
    else:
        rows = datasets.load_dataset(source.path or "", source.subset, split=source.hub_split, revision=source.revision)
    for number, row in enumerate(rows, start=1):
        yield RawRow(f"{path.name}[{source.hub_split}]:{number}", dict(row))
