"""Checks that the sources of tasks are there, and that their first rows have the fields that the config names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from rlft.config import SourceConfig
from rlft.errors import TaskError
from rlft.tasks.fields import FieldError, check_template, find_field, format_template, is_template, to_json
from rlft.tasks.ingest import check_answers, check_id
from rlft.tasks.reasoning_gym import draw_rows
from rlft.tasks.rows import make_task
from rlft.tasks.sources import BadRow, BadRows, RawRow, describe_source, read_rows
from rlft.tasks.splits import Claims
from rlft.training.demonstration_file import iterate_demonstrations
from rlft.types import Task

ROWS = 20
"""How many rows are read beyond the number that `tasks.max_bad_rows` allows to be unusable."""


def check_first_rows(source: SourceConfig, section: str, *, environment: str, allowed: int) -> None:
    """Raise TaskError for a file that is not there, or whose first rows ingestion would refuse.

    `section` is where the source stands in the config, `environment` the name that tasks carry, and `allowed` how many
    rows may be unusable. Data sets of the Hub and generators take longer: `check_drawn_rows` checks them.
    """
    for name in ("prompt", "answer"):
        check_template(getattr(source, name), f"{section}.{name}")
    if source.source in ("jsonl", "csv", "parquet"):
        _check_rows(list(read_rows(source, count=allowed + ROWS)), source, section, environment, allowed)
    elif source.source == "huggingface":
        _check_folder(source, section)


def check_drawn_rows(source: SourceConfig, section: str, *, environment: str, allowed: int, seed: int) -> None:
    """Raise TaskError for a data set of the Hub, or a generator with this `seed`, whose first rows would be refused.

    The arguments are those of `check_first_rows`. It imports the libraries that read these sources.
    """
    count = allowed + ROWS
    if source.source == "huggingface":
        _check_rows(list(read_rows(source, count=count)), source, section, environment, allowed)
    elif source.source == "reasoning_gym":
        drawn = draw_rows(source, seed=seed, expected=count, most=count)
        _check_rows(list(islice(drawn, count)), source, section, environment, allowed)


def check_demonstrations(path: Path) -> None:
    """Raise TaskError for a file of demonstrations that is not there, or whose first rows are no demonstrations."""
    for _ in islice(iterate_demonstrations(path), ROWS):
        pass


def _check_folder(source: SourceConfig, section: str) -> None:
    path = source.path or ""
    if path.startswith(("/", ".")) and not os.path.exists(path):
        raise TaskError(
            f"there is no folder or file {path!r} (looked in {Path.cwd()})",
            where=f"{section}.path",
            fix="correct it, or name a data set of the Hub as OWNER/NAME",
        )


def _check_rows(
    rows: Sequence[RawRow | BadRow], source: SourceConfig, section: str, environment: str, allowed: int
) -> None:
    """Raise TaskError if more of these rows are unusable than `allowed`: ingestion would refuse the source for that."""
    if len(rows) > allowed:
        _check_fields([row for row in rows if isinstance(row, RawRow)], source, section)
    bad, places, tasks = BadRows(allowed), dict[str, str](), list[Task]()
    for raw in rows:
        try:
            if isinstance(raw, RawRow):
                tasks.append(make_task(raw, source, environment=environment))
                if source.id:
                    check_id(tasks[-1].id, raw.place, places, Claims())
            else:
                bad.rows.append(raw)
        except FieldError as error:
            bad.rows.append(BadRow(raw.place, str(error)))
    bad.check(describe_source(source))
    if len(rows) < allowed + ROWS:  # these are all
        check_answers(tasks, source)


def _check_fields(rows: Sequence[RawRow], source: SourceConfig, section: str) -> None:
    """Raise TaskError, which names the settings, if there are settings whose field none of the rows has."""
    said = {f"{section}.{name}": _lacking(rows, getattr(source, name)) for name in ("prompt", "answer", "id", "group")}
    lines = [f"{name}: every row that was looked at {lacks}" for name, lacks in said.items() if lacks]
    if lines:
        raise TaskError(
            "\n  ".join(lines),
            where=describe_source(source),
            fix="name one of its fields, an inner one by its path (outer.inner), or a template such as '{question}'",
        )


def _lacking(rows: Sequence[RawRow], field: str | None) -> str:
    """Return what the first row has instead of a field or a template's fields; an empty text if any row has them."""
    if field is None:
        return ""
    said = ""
    for raw in rows:
        try:
            row = {str(name): to_json(value, str(name)) for name, value in raw.row.items()}
            format_template(row, field) if is_template(field) else find_field(row, field)
        except FieldError as error:
            said = said or str(error)
        else:
            return ""
    return said
