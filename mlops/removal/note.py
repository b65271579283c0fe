"""The note of the run that is removed now, `removing.json` in the home."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from pydantic import ConfigDict, TypeAdapter, ValidationError

from mlops.home.folder import REMOVING, Home
from rlft.errors import StorageError
from rlft.files import write_file


class UnreadableNoteError(StorageError):
    """Raised when the note of a removal cannot be read."""


@dataclass(slots=True)
class Note:
    """The run that is removed now, as `removing.json` holds it: attempts, name, MLflow runs, and paths in the home.

    `hidden` are the steps that the cache does not give since `hidden_at`, of this run and of those that come after it,
    with what stood there before. Before the first run is removed the note has no attempts and no name.
    """

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")

    keys: list[str]
    name: str
    mlflow_runs: list[str]
    paths: list[str] = field(default_factory=list)
    hidden: dict[str, str | None] = field(default_factory=dict)
    hidden_at: str = ""

    def write(self, home: Home) -> None:
        """Keep the note in the home, completely or not at all."""
        write_file(home.root / REMOVING, json.dumps(asdict(self)))


def unfinished_removal(home: Home) -> Note | None:
    """Return the note of a removal that was cut short, or `None`. Raises UnreadableNoteError."""
    try:
        return TypeAdapter(Note).validate_json((home.root / REMOVING).read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as cause:
        raise UnreadableNoteError(
            "this note of a removal that was cut short cannot be read: it is damaged, or of another version of rlft. "
            "What it named may lie in MLflow and on the disk still, and results that it had hidden from the cache are "
            "made again; no other run has lost anything",
            where=str(home.root / REMOVING),
            fix="remove this file; `rlft runs` lists what is there, and `rlft delete RUN` removes it",
        ) from cause
