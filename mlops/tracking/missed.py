"""Keeps what tracking could not write into MLflow in a file, until the next attempt of the same run."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from rlft.files import write_file

logger = logging.getLogger(__name__)

Entry = dict[str, Any]  # one thing to write: its `kind`, and what `RunWriter.write` needs for it, as JSON


def read_missed(path: Path, root_run: str) -> list[Entry]:
    """Return entries that an earlier attempt of this root run could not write; none if the file is absent or another's.

    The end of that attempt is left out, since the run goes on.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["root_run"] != root_run:
            return []
        return [entry for entry in content["entries"] if entry["kind"] != "end"]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as cause:
        logger.warning("%s is not readable as a tracker's backlog and is left out: %s", path, cause)
        return []


def write_missed(path: Path, root_run: str, entries: list[Entry]) -> None:
    """Write entries as JSON, whole or not at all."""
    write_file(path, json.dumps({"root_run": root_run, "entries": entries}, indent=1, ensure_ascii=False))
