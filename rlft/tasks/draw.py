"""Fills splits from a generator: one stream of items, of which every split keeps those that are its own.

Which split a question belongs to is decided by a hash (`rlft.tasks.splits.own_share`), and the stream does not depend
on the counts. So a split has the first of its questions that the stream brings, and no count moves a task of another.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from rlft.config import SourceConfig
from rlft.config.section import LARGEST_SEED
from rlft.errors import TaskError
from rlft.evaluation.gates import identities
from rlft.progress import Meter, Progress, silent
from rlft.tasks.fields import FieldError
from rlft.tasks.reasoning_gym import draw_rows
from rlft.tasks.rows import make_task
from rlft.tasks.sources import BadRow, BadRows, RawRow, describe_source
from rlft.tasks.splits import SHARES, Claims, own_share
from rlft.types import SPLITS, Split, Task

# Drawing n of N equally likely tasks takes about N ln(N / (N - n)) draws: ten draws a task find 99.99 % of them. A
# split whose share is a twelfth finds one of its own in twelve of these.
DRAWS_PER_TASK = 10
SPARE_DRAWS = 1000  # on top of these, for small counts
# The generator is made for so many items, and for twice as many whenever they do not do. The items of a few generators
# (acre) depend on that number, so it must not depend on the counts. word_ladder takes at most 16 times as many.
FIRST_DRAWS = 1250
# reasoning-gym seeds an item with the generator's seed plus its index. At most 200 million items are drawn, as a split
# has at most 10 million tasks, so with this between their seeds two sources never share an item.
SEED_STEP = 2**30


@dataclass(slots=True)
class Drawn:
    """The tasks drawn for all splits, and of the stream its seed and the range [first, end) of indices.

    `spare` is how many different tasks of it were of splits that had enough.
    """

    seed: int
    first: int
    end: int
    tasks: list[Task] = field(default_factory=list)
    spare: int = 0


def second_seed(seed: int) -> int:
    """Return the seed of the tasks off distribution, in 0 to 2^32 - 1: far from that of the others."""
    return (seed + SEED_STEP) % (LARGEST_SEED + 1)


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
    """Draw the `wanted` number of different tasks for each split, or for `off_distribution` alone.

    An item whose prompt or question the stream has brought before is skipped, wanted or not, and counted in `claims`.
    Raises `TaskError` if a split does not get its number in so many draws, or for more bad rows than `bad` allows.
    """
    meter = Meter(progress, sum(wanted.values()), "tasks")
    missing = Counter(wanted)
    drawn = Drawn(seed, source.first_index, source.first_index)
    alone = "off_distribution" in wanted
    share = Fraction(1) if alone else min(SHARES[name] / count for name, count in wanted.items() if count)
    most = math.ceil(DRAWS_PER_TASK / share) * (wanted["off_distribution"] if alone else 1) + SPARE_DRAWS
    rows = draw_rows(source, seed=seed, expected=FIRST_DRAWS, most=most)
    seen: set[str] = set()

    def split_of(task: Task) -> Split:
        return "off_distribution" if alone else own_share(task.group, seed=seed)

    while missing.total():
        raw = next(rows, None)
        if raw is None:
            raise _too_few(source, wanted, missing, drawn.end - drawn.first)
        drawn.end += 1
        task = _task(raw, source, environment, split_of, bad)
        if task is None:
            continue
        keys = {*identities(task), f"id {task.id}"}
        if not seen.isdisjoint(keys):
            claims.dropped[f"{task.split}: repeated"] += 1
            continue
        seen |= keys
        if not missing[task.split]:
            drawn.spare += 1
        elif claims.claim(task):
            drawn.tasks.append(task)
            missing[task.split] -= 1
            meter.add()
    return drawn


def _task(
    raw: RawRow | BadRow,
    source: SourceConfig,
    environment: str,
    split_of: Callable[[Task], Split],
    bad: BadRows,
) -> Task | None:
    """Return the task of a row; `None` for a bad row, which is noted.

    Raises `TaskError` if there are too many of these.
    """
    try:
        if isinstance(raw, RawRow):
            task = make_task(raw, source, environment=environment)
            return replace(task, split=split_of(task))
    except FieldError as error:
        raw = BadRow(raw.place, str(error))
    bad.rows.append(raw)
    bad.check(describe_source(source))
    return None


def _too_few(source: SourceConfig, wanted: Mapping[Split, int], missing: Mapping[Split, int], draws: int) -> TaskError:
    short: list[Split] = [name for name in SPLITS if missing.get(name)]
    got: dict[Split, int] = {name: wanted[name] - missing[name] for name in short}
    found = ", ".join(f"{count} of {wanted[name]} for {name}" for name, count in got.items())
    settings = ", ".join(f"{_setting(name)} to {count}" for name, count in got.items())
    why = (
        "; each question belongs to one split for good (seven twelfths of them to train, two each to gate and test, "
        "one to validation), so that no count moves a task"
    )
    return TaskError(
        f"only {found} different tasks after {draws} draws{'' if 'off_distribution' in short else why}",
        where=describe_source(source),
        fix="widen the generator with generator_kwargs (more terms, more digits)"
        + (f", or lower {settings}" if all(got.values()) else ""),
    )


def _setting(split: Split) -> str:
    """Return the name in the config of a split's count."""
    return "tasks.off_distribution_count" if split == "off_distribution" else f"tasks.splits.{split}"
