"""Fills splits from a generator: each split draws with a seed of its own, until it has its count of tasks.

reasoning-gym seeds an item with the generator's seed plus the item's index, and some generators prepare all items up to
the largest index. So ranges far apart are made by seeds far apart, and indices begin at `first_index` in each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rlft.config import SourceConfig
from rlft.config.bounds import LARGEST_SEED
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
# Between the seeds of two splits. Counts are at most 13 million together, so a split draws at most 131 million items
# from `first_index` on, and its seeds plus indices never meet those of another one.
SEED_STEP = 2**28


@dataclass(frozen=True, slots=True)
class Drawn:
    """The tasks drawn for all splits, and for each split its seed and the range [first, end) of indices it took."""

    tasks: list[Task]
    indices: dict[str, list[int]]
    seeds: dict[str, int]


def split_seed(seed: int, split: Split) -> int:
    """Return the generator's seed for a split, in 0 to 2^32 - 1: `seed` for test, the others 2^28 apart from there."""
    return (seed + SEED_STEP * CLAIM_ORDER.index(split)) % (LARGEST_SEED + 1)


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

    What a split draws does not depend on the counts of the others, but for prompts that two splits draw: these stay in
    the first of them in `CLAIM_ORDER`. An item whose prompt has been drawn already is skipped and counted in `claims`.
    Raises `TaskError` if the generator has too few different tasks, or more bad rows than `bad` allows.
    """
    total = sum(wanted.values())
    meter = Meter(progress, total, "tasks")
    drawn = Drawn([], {}, {})
    for split in CLAIM_ORDER:
        if split not in wanted:
            continue
        drawn.seeds[split] = split_seed(seed, split)
        rows = draw_rows(
            source, seed=drawn.seeds[split], expected=wanted[split], most=DRAWS_PER_TASK * total + SPARE_DRAWS
        )
        end, enough = source.first_index, len(drawn.tasks) + wanted[split]
        while len(drawn.tasks) < enough:
            raw = next(rows, None)
            if raw is None:
                raise _too_few(source, wanted, split, len(drawn.tasks), end - source.first_index)
            end += 1
            task = _task(raw, source, environment, split, bad)
            if task is not None and claims.claim(task, distinct_prompts=True):
                drawn.tasks.append(task)
                meter.add()
        drawn.indices[split] = [source.first_index, end]
    return drawn


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


def _too_few(source: SourceConfig, wanted: Mapping[Split, int], split: Split, found: int, draws: int) -> TaskError:
    asked = " + ".join(f"{name} {count}" for name, count in wanted.items())
    return TaskError(
        f"only {found} different tasks after {draws} draws for {split}, {sum(wanted.values())} are needed ({asked})",
        where=describe_source(source),
        fix="widen the generator with generator_kwargs (more terms, more digits), or lower the counts",
    )
