"""Databases of MLflow with nothing in them: it takes seconds to make one, and none to copy it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from mlflow import MlflowClient


@cache
def _empty() -> Path:
    """The one that this process has made."""
    folder = Path(tempfile.mkdtemp(prefix="rlft-tests-store-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    MlflowClient(f"sqlite:///{folder}/mlflow.db").search_registered_models()
    return folder / "mlflow.db"


def new_store(folder: Path) -> str:
    """Return the address of a new database of MLflow in a folder, which is `mlflow.db` there."""
    shutil.copyfile(_empty(), folder / "mlflow.db")
    return f"sqlite:///{folder}/mlflow.db"
