"""Reads all artifacts of a home's runs, and compares them with the hashes that were stored with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from mlops.home.folder import Home
from mlops.runs.store import RunStore
from rlft.errors import DamagedError
from rlft.seals import SEALED, Seal, lost_seal, read_seal, seal_place

_STORES = "zenml/local_stores"


@dataclass
class Verified:
    """What was found: how many artifacts were read, and what is damaged; `problems` are runs that cannot be read."""

    artifacts: int = 0
    damages: list[DamagedError] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def verify_artifacts(home: Home) -> Verified:
    """Read every artifact of the runs of a home, and compare its files with their hashes.

    One that several runs share, through the cache, is read once, for the oldest of them.
    """
    found, seen, store = Verified(), set[str](), RunStore(home)
    for run in reversed(store.runs()):
        for step, artifact in run.artifacts():
            place = home.root / artifact["place"]
            if artifact["place"] in seen:
                continue
            seen.add(artifact["place"])
            found.artifacts += 1
            found.damages += run.seal(artifact, step).damages(place)
            if not place.is_dir() and not artifact["files"]:
                found.damages.append(DamagedError("this artifact is gone", where=str(place), run=run.name, step=step))
    found.problems = store.problems
    return found


def stored_seal(home: Home, place: Path) -> Seal | None:
    """Return the seal of the artifact at `place` in a home; `None` if it has none.

    Raises DamagedError, and FormatVersionError for a format that is not read.
    """
    file = seal_file(home, place)
    if file is not None and file.is_file():
        return read_seal(str(place), file.read_text(errors="replace"))
    if (place / SEALED).exists():
        raise lost_seal(str(place))
    return None


def seal_file(home: Home, place: Path) -> Path | None:
    """Return where the seal of the artifact at `place` lies; `None` for a place outside the stores of the home."""
    stores = home.root / _STORES
    if not place.is_relative_to(stores) or place == stores:
        return None
    return Path(seal_place(str(stores / place.relative_to(stores).parts[0]), str(place)))
