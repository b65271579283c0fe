"""Fills splits from a generator: each split takes the next range of indices until it has its count of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rlft.config import SourceConfig
from rlft.errors import TaskError
from rlft.progress import Meter, Progress, silent
from rlft.tasks.duplicates import Claims
from rlft.tasks.fields import FieldError
from rlft.tasks.reasoning_gym import draw_rows
from rlft.tasks.rows import make_task
from rlft.tasks.sources import BadRow, BadRows, RawRow, describe_source
from rlft.tasks.splits import CLAIM_ORDER
from rlft.types import Split, Task

# Drawing n of N equally likely tasks takes about N ln(N / (N - n)) draws: ten draws a task find 99.99 % of them.
DRAWS_PER_TASK = 10
SPARE_DRAWS = 1000  # on top of these, for small counts


@dataclass(frozen=True, slots=True)
class Drawn:
    """The tasks drawn for all splits, and for each split the range [first, end) of indices that it took."""

    tasks: list[Task]
    indices: dict[str, list[int]]


def draw_tasks(
    source: SourceConfig,
    wanted: Mapping[Split, int],
    *,
    environment: str,
    seed: int,
    claims: Claims,
    bad: BadRows,
    progress: Progress = silent,
) -> Drawn:
    """Draw the `wanted` number of different tasks for each split.

    Splits take their ranges in `CLAIM_ORDER`, so that more train tasks leave the evaluation splits as they are. An item
    whose prompt has been drawn already is skipped and counted in `claims`. Raises `TaskError` if the generator has too
    few different tasks, or more bad rows than `bad` allows.
    """
    total = sum(wanted.values())
    meter = Meter(progress, total, "tasks")
    rows = draw_rows(source, seed=seed, expected=total, most=DRAWS_PER_TASK * total + SPARE_DRAWS)
    tasks: list[Task] = []
    ranges: dict[str, list[int]] = {}
    end = source.first_index
    for split in CLAIM_ORDER:
        if split not in wanted:
            continue
        start, enough = end, len(tasks) + wanted[split]
        while len(tasks) < enough:
            raw = next(rows, None)
            if raw is None:
                raise _too_few(source, wanted, len(tasks), end - source.first_index)
            end += 1
            task = _task(raw, source, environment, split, bad)
            if task is not None and claims.claim(task, distinct_prompts=True):
                tasks.append(task)
                meter.add()
        ranges[split] = [start, end]
    return Drawn(tasks, ranges)


def _task(raw: RawRow | BadRow, source: SourceConfig, environment: str, split: Split, bad: BadRows) -> Task | None:
    """The task of a row; `None` for a bad row, which is noted. Raises `TaskError` if there are too many of these."""
    try:
        if isinstance(raw, RawRow):
            return replace(make_task(raw, source, environment=environment), split=split)
    except FieldError as error:
        raw = BadRow(raw.place, str(error))
    bad.rows.append(raw)
    bad.check(describe_source(source))
    return None


def _too_few(source: SourceConfig, wanted: Mapping[Split, int], found: int, drawn: int) -> TaskError:
    asked = " + ".join(f"{name} {count}" for name, count in wanted.items())
    return TaskError(
        f"only {found} different tasks in {drawn} draws, {sum(wanted.values())} are needed ({asked})",
        where=describe_source(source),
        fix="widen the generator with generator_kwargs (more terms, more digits), or lower the counts",
    )
