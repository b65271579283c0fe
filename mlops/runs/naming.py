"""The name of a run that was given none: its experiment, what differs from its config, and the day.

A number stands behind it where that is taken: `demo-seed=1-2026-11-26`, then `demo-seed=1-2026-11-26-2`. Commands take
the exact name of a run for that run alone, although the names of others begin like it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING

from mlops.home.folder import Home
from mlops.home.processes import NameHeldError, claimed, promised
from rlft.config.file import holds_secret
from rlft.sweep import short_name

if TYPE_CHECKING:
    from zenml.models import PipelineRunResponse

_SHORT = re.compile(r"[\w.+-]{1,24}", re.ASCII)  # a value that a name can hold


def default_name(experiment: str, overrides: Sequence[str]) -> str:
    """Return a name that tells what a run is about: its experiment, what differs from the config, and the day."""
    differing = short_overrides(overrides)
    return "-".join([experiment, *([differing] if differing else []), f"{datetime.now():%Y-%m-%d}"])


def short_overrides(overrides: Sequence[str]) -> str:
    """Return what differs from a config as a part of a name (`short_name`); empty if nothing does.

    Of the `overrides`, `key=value`, those are named that are short and no secret, as far as there is room. The others
    are counted.
    """
    changes = {key: value for key, _, value in (each.partition("=") for each in overrides)}
    hidden = {key for key, value in changes.items() if holds_secret(f"{key}={value}") or not _SHORT.fullmatch(value)}
    shown = {key: value for key, value in changes.items() if key not in hidden}
    return short_name(shown, unnamed=len(hidden))


def numbered(name: str, number: int) -> str:
    """Return a name with a number behind it; the first has none."""
    return name if number == 1 else f"{name}-{number}"


def run_called(name: str) -> PipelineRunResponse | None:
    """Return the run that has this name in ZenML, whose set-up must be that of the run; `None` if none has."""
    from zenml.client import Client

    return next(iter(Client().list_pipeline_runs(name=f"equals:{name}", size=1).items), None)


def hold_free(
    home: Home,
    names: Sequence[str],
    stack: str | None,
    held: ExitStack,
    *,
    begins: bool,
    is_taken: Callable[[str], object] = run_called,
) -> list[str]:
    """Return the names with the lowest number, the same behind all, with which none is taken or held.

    Other processes of the home do not get them until `held` ends. `begins` says that this process begins the runs;
    otherwise others do, which are given the names.
    """
    holds = [promised, claimed] if begins else [promised]
    for number in count(1):
        tried = [numbered(name, number) for name in names]
        with ExitStack() as trying:
            try:
                for name in tried:
                    for hold in holds:
                        trying.enter_context(hold(home, name, stack))
            except NameHeldError:
                continue
            if not any(is_taken(name) for name in tried):  # asked while they are held, so that it stays true
                held.push(trying.pop_all())
                return tried
    raise AssertionError("numbers do not end")
