"""Checks of the home: whether it was moved, what lies in it, and what was cut short there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mlops.doctor.finding import Finding
from mlops.doctor.killed import check_runs
from mlops.home.entries import find_odd
from mlops.home.folder import Home
from mlops.home.settings import check_place
from rlft.errors import StorageError


def check_home(home: Home) -> Iterator[Finding]:
    """Yield what is found of the home. On the way runs that were killed are marked so."""
    if odd := list(find_odd(home)):
        yield from (Finding("broken", f"{each.where}: {each.what}", each.fix) for each in odd)
        return  # nothing else can be looked at until these are gone
    yield from _moved(home)
    yield from check_runs(home)
    yield from _missed(home)
    yield from _checkpoints(home)


def _moved(home: Home) -> Iterator[Finding]:
    """Say that a home was moved or copied here, which does not work."""
    try:
        check_place(home)
    except StorageError as error:
        yield Finding("broken", f"{error.where}: {error.what}", error.fix)


def _missed(home: Home) -> Iterator[Finding]:
    """Name the files that hold what tracking could not write into MLflow."""
    for file in sorted(Path(home.root / "runs").glob("*.missed.json")):
        yield Finding("warning", f"{file} holds what MLflow did not take", "resume or rerun once MLflow is reachable")


def _checkpoints(home: Home) -> Iterator[Finding]:
    """Say where the checkpoints of supervised stages are, from which a resumed run goes on, and how large they are."""
    files = list(home.checkpoints.glob("*/*"))
    if files:
        size = sum(map(_size, files)) / 2**30
        what = f"{len({file.parent for file in files})} supervised stages were cut off or go on: {size:.1f} GiB in "
        fix = "`rlft resume` goes on with them; what is two weeks old is removed by the next one"
        yield Finding("ok", f"{what}{home.checkpoints}", fix)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # a run that goes on has replaced it by its next checkpoint
        return 0
