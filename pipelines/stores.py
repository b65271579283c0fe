"""The databases of ZenML and MLflow in a home, made whole: one cut short while it is made cannot be opened again.

Both are made in hundreds of statements, none of which can be repeated. So what is being made is noted first, and what
was noted and never finished is made anew. Nothing else is ever removed: before the note is gone no run begins.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from pathlib import Path

from pipelines.files import write_file
from pipelines.home import Home


def make_stores(home: Home) -> None:
    """Make what is missing. Another process that makes them is waited for. Call with `home` as ZenML's set-up."""
    unfinished = home.root / "unfinished.json"
    with (home.root / "stores.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if unfinished.is_file():
            for name in json.loads(unfinished.read_text()):
                _remove(home.root / name)
        missing = [name for name in _FILES if not (home.root / name).exists()]
        if missing:
            write_file(unfinished, json.dumps(missing))
            _open(home)
        unfinished.unlink(missing_ok=True)


_FILES = ("zenml/config.yaml", "zenml/local_stores/default_zen_store", "mlflow.db")


def _open(home: Home) -> None:
    """Open both, which makes them."""
    from mlflow import MlflowClient
    from zenml.client import Client

    assert Client().active_stack_model
    MlflowClient(home.tracking_uri).search_experiments(max_results=1)


def _remove(path: Path) -> None:
    """A file with its journal, or a folder."""
    if path.is_dir():
        shutil.rmtree(path)
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
