"""Copies of a home, to be changed by one test each. ZenML and MLflow store absolute paths, so a copy's are rewritten.

rlft supports no home that was copied: a run takes a minute, and tests would make the same one again.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from functools import wraps
from pathlib import Path
from types import SimpleNamespace

from mlops.home.folder import Home, find_home

_PATHS = (
    ("artifact_version", "uri"),
    ("artifact_visualization", "uri"),
    ("logs", "uri"),
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
    ("trace_tags", "value"),
)


def copy_home(was: Path, root: Path) -> None:
    """Copy the home at `was` to `root`, as if everything had been made there."""
    shutil.copytree(was, root, symlinks=True)
    for file in Home(root).databases:
        if file.is_file():
            with closing(sqlite3.connect(file)) as opened, opened:
                for table, column in _PATHS:
                    if opened.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
                        for old, new in ((was.as_uri(), root.as_uri()), (was, root)):
                            changed = f"UPDATE {table} SET {column} = replace({column}, ?, ?)"
                            opened.execute(changed, (f"{old}/", f"{new}/"))
    if (note := Home(root).note).is_file():
        note.write_text(note.read_text().replace(f'"{was}"', f'"{root}"'))


def leave_home_out() -> None:
    """Let ZenML's cache keys in this process hold no place of the home, so that a copy has the results of the first."""
    from zenml.orchestrators import cache_utils

    original = cache_utils.generate_cache_key

    @wraps(original)
    def generate(step, input_artifacts, artifact_store, project_id):
        place, home = Path(artifact_store.path), find_home().root
        path = place.relative_to(home).as_posix() if place.is_relative_to(home) else artifact_store.path
        store = SimpleNamespace(id=artifact_store.id, path=path, custom_cache_key=None)
        return original(step, input_artifacts, store, project_id)

    cache_utils.generate_cache_key = generate
