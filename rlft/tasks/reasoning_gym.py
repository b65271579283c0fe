"""Draws rows from any generator of reasoning-gym (github.com/open-thought/reasoning-gym) by its name.

reasoning-gym seeds an item with the generator's seed plus the item's index, so two seeds close to each other share
nearly all items. Therefore two sources draw with seeds far apart (`rlft.tasks.draw`).
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import random
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from types import ModuleType
from typing import Any

from rlft.config import SourceConfig
from rlft.errors import TaskError
from rlft.tasks.fields import to_json
from rlft.tasks.sources import BadRow, RawRow

SAT_FIX = "install the extra: pip install rlft[sat]"


def import_reasoning_gym() -> ModuleType:
    """Import the package, also where `pycosat` is missing, which needs a compiler and serves one generator only.

    A placeholder stands in for `pycosat` while the package is imported; using it raises `ImportError`. See
    docs/decisions/0001-install.md.
    """
    if "reasoning_gym" in sys.modules:
        return importlib.import_module("reasoning_gym")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # one of its packages compares with `is "..."`, at first import
        if importlib.util.find_spec("pycosat") is not None:
            return importlib.import_module("reasoning_gym")
        sys.modules["pycosat"] = pycosat_placeholder()
        try:
            return importlib.import_module("reasoning_gym")
        finally:
            del sys.modules["pycosat"]


def pycosat_placeholder() -> ModuleType:
    """Return a module that can be imported as `pycosat` and raises `ImportError` when anything in it is used."""

    def missing(name: str) -> Any:
        if name.startswith("__"):  # the import system asks for such names
            raise AttributeError(name)
        raise ImportError(f"pycosat is not installed; {SAT_FIX}")

    module = ModuleType("pycosat", "Stands in for a package that is not installed.")
    module.__dict__["__getattr__"] = missing
    return module


def load_generator(name: str, kwargs: Mapping[str, Any], seed: int, size: int) -> Any:
    """Return a reasoning-gym data set: `dataset[index]` for index < `size`, `dataset.score_answer(answer, entry)`.

    Raises `TaskError` for an unknown name, with the names that come close, and for arguments that it does not take.
    """
    package = import_reasoning_gym()
    registry: dict[str, tuple[type, type]] = importlib.import_module("reasoning_gym.factory").DATASETS
    if name not in registry:
        raise TaskError(f"reasoning_gym has no generator {name!r}", where="tasks.generator", fix=_close(name, registry))
    known = [item.name for item in fields(registry[name][1]) if item.name not in ("seed", "size")]
    unknown = sorted(set(kwargs) - set(known))
    if unknown:
        own = "seed and size come from `seed` and tasks.splits; " if {"seed", "size"} & set(unknown) else ""
        raise TaskError(
            f"generator {name} takes no {', '.join(unknown)}",
            where="tasks.generator_kwargs",
            fix=own + _close(unknown[0], known),
        )
    try:
        return package.create_dataset(name, seed=seed, size=size, **_typed(name, kwargs))
    except ImportError as error:
        raise TaskError(str(error), where=f"generator {name}", fix=SAT_FIX) from error
    except Exception as error:  # each generator checks its arguments in its own way: assert, ValueError, KeyError
        raise TaskError(
            f"generator {name} refuses size {size} with {dict(kwargs)}: {type(error).__name__}: {error}",
            where="tasks.generator_kwargs",
            fix="correct the arguments; where the size is refused, lower the counts in tasks.splits",
        ) from error


def _typed(name: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as the generator takes them.

    `composite` wants objects of a class for its parts, not maps.
    """
    if name != "composite" or "datasets" not in kwargs:
        return dict(kwargs)
    part = importlib.import_module("reasoning_gym.composite").DatasetSpec
    return {**kwargs, "datasets": [part(**{"weight": 1.0, "config": {}, **each}) for each in kwargs["datasets"]]}


def _close(name: str, names: Iterable[str]) -> str:
    names = sorted(names)
    close = difflib.get_close_matches(name, names, n=5, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"known names: {', '.join(names)}"


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
