"""Checks of the store of schedules: whether it is whole, and whether each schedule in it can be read."""

from __future__ import annotations

from collections.abc import Iterator

from mlops.doctor.finding import Finding
from mlops.home.databases import complaint
from mlops.home.folder import Home
from mlops.schedules.firings import damaged_firings
from mlops.schedules.store import APPLY_AGAIN, damaged_schedules, opened, store_file
from rlft.errors import StorageError


def check_schedules(home: Home) -> Iterator[Finding]:
    """Yield what is broken of the schedules of a home; nothing of a home that has had none."""
    file = store_file(home)
    if not file.is_file():
        return
    if said := file.stat().st_size and complaint(file):
        yield Finding("broken", f"{file}: the schedules are damaged: {said}", APPLY_AGAIN)
        return
    try:
        with opened(home, make=False) as store:
            broken = damaged_schedules(store)
            firings = damaged_firings(store)
    except StorageError as error:
        yield Finding("broken", f"{error.where}: {error.what}", error.fix)
        return
    yield from (Finding("broken", f"{each.where}: {each.what}", each.fix) for each in broken)
    for name, count in firings.items():
        what = f"what came of {count} due times of schedule {name} is damaged, and is left out"
        yield Finding("warning", what, "apply its file again, which forgets them")
