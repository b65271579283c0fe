"""Draws tasks from any generator of reasoning-gym (github.com/open-thought/reasoning-gym) by its name.

One stream of items fills all splits, of which every split keeps those that are its own. Which split a question belongs
to is decided by a hash (`rlft.tasks.splits.own_share`), and the stream does not depend on the counts. So a split has
the first of its questions that the stream brings, and no count moves a task of another.

reasoning-gym seeds an item with the generator's seed plus the item's index, so two seeds close to each other share
nearly all items. Therefore two sources draw with seeds far apart (`second_seed`).
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import random
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import ModuleType
from typing import Any

from rlft.config import SourceConfig
from rlft.config.section import LARGEST_SEED
from rlft.errors import TaskError
from rlft.evaluation.gates import identities
from rlft.progress import Meter
from rlft.tasks.rows import FieldError, make_task, to_json
from rlft.tasks.sources import BadRow, RawRow, Reading, describe_source
from rlft.tasks.splits import SHARES, own_share
from rlft.types import Split, Task

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


def draw_tasks(source: SourceConfig, wanted: Mapping[Split, int], reading: Reading, *, seed: int) -> Drawn:
    """Draw the `wanted` number of different tasks for each split, or for `off_distribution` alone.

    An item whose prompt or question the stream has brought before is skipped, wanted or not, and counted in
    `reading.claims`. Raises `TaskError` if a split does not get its number in so many draws, or for more bad rows than
    `reading.bad` allows.
    """
    meter = Meter(reading.progress, sum(wanted.values()), "tasks")
    missing = Counter(wanted)
    drawn = Drawn(seed, source.first_index, source.first_index)
    alone = "off_distribution" in wanted
    share = Fraction(1) if alone else min(SHARES[name] / count for name, count in wanted.items() if count)
    most = math.ceil(DRAWS_PER_TASK / share) * (wanted["off_distribution"] if alone else 1) + SPARE_DRAWS
    rows = draw_rows(source, seed=seed, expected=FIRST_DRAWS, most=most)
    seen: set[str] = set()
    while missing.total():
        raw = next(rows, None)
        if raw is None:
            found = ", ".join(f"{wanted[name] - missing[name]} of {wanted[name]} for {name}" for name in +missing)
            raise TaskError(
                f"only {found} different tasks after {drawn.end - drawn.first} draws",
                where=describe_source(source),
                fix="widen the generator with generator_kwargs (more terms, more digits), or lower tasks.splits or "
                "tasks.off_distribution_count; each question belongs to one split for good",
            )
        drawn.end += 1
        try:
            if isinstance(raw, BadRow):
                raise FieldError(raw.reason)
            task = make_task(raw, source, environment=reading.environment)
        except FieldError as error:
            reading.bad.rows.append(BadRow(raw.place, str(error)))
            reading.bad.check(describe_source(source))
            continue
        task = replace(task, split="off_distribution" if alone else own_share(task.group, seed=seed))
        keys = {*identities(task), f"id {task.id}"}
        if not seen.isdisjoint(keys):
            reading.claims.dropped[f"{task.split}: repeated"] += 1
            continue
        seen |= keys
        if not missing[task.split]:
            drawn.spare += 1
        elif reading.claims.claim(task):
            drawn.tasks.append(task)
            missing[task.split] -= 1
            meter.add()
    return drawn


SAT_FIX = "install the extra: pip install rlft[sat]"


def import_reasoning_gym() -> ModuleType:
    """Import the package, also where `pycosat` is missing, which needs a compiler and serves one generator only.

    A placeholder stands in for `pycosat` while it is imported; using it raises `ImportError`. See
    docs/decisions/0001-install.md.
    """
    if importlib.util.find_spec("pycosat") is None:
        sys.modules["pycosat"] = _Missing("pycosat")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # one of its packages compares with `is "..."`
            return importlib.import_module("reasoning_gym")
    finally:
        if isinstance(sys.modules.get("pycosat"), _Missing):
            del sys.modules["pycosat"]


class _Missing(ModuleType):
    """A module that can be imported, and that raises `ImportError` when anything in it is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system asks for such names
            raise AttributeError(name)
        raise ImportError(f"{self.__name__} is not installed; {SAT_FIX}")


def load_generator(name: str, kwargs: Mapping[str, Any], seed: int, size: int) -> Any:
    """Return a reasoning-gym data set: `dataset[index]` for index < `size`, `dataset.score_answer(answer, entry)`.

    Raises `TaskError` with what it says of an unknown name, and of arguments that it does not take.
    """
    package = import_reasoning_gym()
    try:
        return package.create_dataset(name, seed=seed, size=size, **_typed(name, kwargs))
    except ImportError as error:
        raise TaskError(str(error), where=f"generator {name}", fix=SAT_FIX) from error
    except Exception as error:  # each generator checks its arguments in its own way: assert, ValueError, KeyError
        raise TaskError(
            f"generator {name} refuses size {size} with {dict(kwargs)}: {type(error).__name__}: {error}",
            where="tasks.generator",
            fix="correct the name or generator_kwargs (seed and size are none of these); where the size is refused, "
            "lower the counts in tasks.splits",
        ) from error


def _typed(name: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as the generator takes them.

    `composite` wants objects of a class for its parts, not maps.
    """
    if name != "composite" or "datasets" not in kwargs:
        return dict(kwargs)
    part = importlib.import_module("reasoning_gym.composite").DatasetSpec
    return {**kwargs, "datasets": [part(**{"weight": 1.0, "config": {}, **each}) for each in kwargs["datasets"]]}


def draw_rows(source: SourceConfig, *, seed: int, expected: int, most: int) -> Iterator[RawRow | BadRow]:
    """Yield items from `first_index` on: probably `expected` of them are needed, and at most `most` are drawn.

    A row holds `question`, `answer` and `metadata`; its `info` is what scoring needs: `generator`, `generator_kwargs`,
    `seed`, `index`, and the whole item as `entry`. Some generators prepare all items at once, so the data set is made
    for the expected number first, and made anew for twice as many only when more are asked for. An item is that of the
    first of these data sets which has it, so it depends on `expected`, and not on `most`.
    """
    name = source.generator or ""
    drawn, size = 0, expected
    while drawn < most:
        with _global_seed(seed):
            dataset = load_generator(name, source.generator_kwargs, seed, source.first_index + size)
        upto = min(size, most)
        for index in range(source.first_index + drawn, source.first_index + upto):
            yield _draw(dataset, source, seed, index)
        drawn, size = upto, 2 * size


@contextmanager
def _global_seed(seed: int) -> Iterator[None]:
    """Seed Python's global random generator within the context, then restore its state.

    The generator `list_functions` draws from it beside its own, so that its items would differ between processes.
    (numpy's global generator is left alone: only `pool_matrix` uses it, and seeds it itself.)
    """
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


def _draw(dataset: Any, source: SourceConfig, seed: int, index: int) -> RawRow | BadRow:
    place = f"{source.generator}[{index}]"
    try:
        with _global_seed(seed + index):
            entry = to_json(dict(dataset[index]), "entry")
    except ImportError as error:
        raise TaskError(str(error), where=place, fix=SAT_FIX) from error
    except Exception as error:  # a generator may raise anything, and one that fails at an item makes a bad row
        return BadRow(place, f"could not be drawn: {type(error).__name__}: {error}")
    info = {
        "generator": source.generator,
        "generator_kwargs": to_json(source.generator_kwargs, "generator_kwargs"),
        "seed": seed,
        "index": index,
        "entry": entry,
    }
    return RawRow(place, entry, info)
