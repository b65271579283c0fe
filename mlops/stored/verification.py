"""Checks all artifacts of a home against their seals, with no ZenML: its database is only asked where they lie."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mlops.home.databases import ZENML, opened
from mlops.home.folder import Home
from mlops.ids import AS_STORED, MADE_AGAIN, name_of_first
from rlft.errors import DamagedError, FormatVersionError
from rlft.seals import SEALED, Seal, lost_seal, read_seal, seal_place

_STORES = "zenml/local_stores"
_STAMP = MADE_AGAIN.strftime(AS_STORED)
# The step that stored an artifact is the first that had it; those that took it from the cache are later. What has been
# made again since is left out.
_ARTIFACTS = """
SELECT artifact_version.uri, pipeline_run.name, step_run.name, seal.value, min(step_run.created) FROM artifact_version
JOIN step_run_output_artifact ON step_run_output_artifact.artifact_id = artifact_version.id
JOIN step_run ON step_run.id = step_run_output_artifact.step_id
JOIN pipeline_run ON pipeline_run.id = step_run.pipeline_run_id
LEFT JOIN (
    SELECT resource_id, value FROM run_metadata_resource
    JOIN run_metadata ON run_metadata.id = run_metadata_resource.run_metadata_id AND run_metadata.key = 'seal'
) AS seal ON seal.resource_id = artifact_version.id
GROUP BY artifact_version.id HAVING NOT (
    step_run.cache_expires_at IS ? AND EXISTS (
        SELECT 1 FROM step_run AS other WHERE other.cache_key = step_run.cache_key AND other.status = 'completed'
        AND other.cache_expires_at IS NOT ?
    )
) ORDER BY step_run.created
"""


@dataclass
class Verified:
    """What was found: how many artifacts were read, how many of them have no seal, and what is damaged.

    `others` are artifacts that another rlft has sealed in a format that is not read.
    """

    artifacts: int = 0
    without_seal: int = 0
    damages: list[DamagedError] = field(default_factory=list)
    others: list[FormatVersionError] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Artifact:
    """An artifact in a home; `digest` is the hash of its seal, `None` if it was stored before there were seals."""

    place: Path
    run: str
    step: str
    digest: str | None


def verify_artifacts(home: Home) -> Verified:
    """Read every artifact in the stores of a home, and compare it with its seal. Raises sqlite3.Error."""
    found = Verified()
    for artifact in _artifacts(home):
        found.artifacts += 1
        try:
            found.damages += [damage.of(artifact.run, artifact.step) for damage in _damages(home, artifact, found)]
        except FormatVersionError as other:
            found.others.append(other)
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


def _artifacts(home: Home) -> Iterator[_Artifact]:
    if not ZENML.file(home).is_file():
        return
    with opened(ZENML.file(home), seconds=10) as database:
        for uri, run, step, digest, _ in database.execute(_ARTIFACTS, [_STAMP] * 2).fetchall():
            if Path(uri).is_relative_to(home.root / _STORES):
                yield _Artifact(Path(uri), name_of_first(run), step, None if digest is None else json.loads(digest))


def _damages(home: Home, artifact: _Artifact, found: Verified) -> Iterator[DamagedError]:
    """Yield what is damaged in an artifact, and count it in `found` if it has no seal."""
    try:
        seal = stored_seal(home, artifact.place)
    except DamagedError as damage:
        yield damage
        return
    if changed := _changed(artifact, seal):
        yield changed
    elif seal is None:
        found.without_seal += 1
        if not artifact.place.is_dir():
            yield DamagedError("this artifact is gone", where=str(artifact.place))
    else:
        yield from seal.damages(artifact.place)


def _changed(artifact: _Artifact, seal: Seal | None) -> DamagedError | None:
    """Return an error if the seal is not the one whose hash the database has."""
    if artifact.digest is None or (seal is not None and seal.digest == artifact.digest):
        return None
    if seal is None:
        return lost_seal(str(artifact.place))
    return DamagedError("the seal of this artifact has changed since it was stored", where=str(artifact.place))
