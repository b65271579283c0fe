"""Fixtures that several rooms of the tests share."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.needs import need

# Importing a step makes ZenML open its store: each worker has one of its own, and never the user's.
_ZENML = tempfile.mkdtemp(prefix="rlft-tests-zenml-")
atexit.register(shutil.rmtree, _ZENML, ignore_errors=True)
os.environ |= {"ZENML_CONFIG_PATH": _ZENML, "ZENML_ANALYTICS_OPT_IN": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the real data sets: `RLFT_SHARED_DATA`, else `shared/data` beside the repository."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("RLFT_SHARED_DATA") or default)
    need(folder.is_dir(), f"no real data at {folder}; set RLFT_SHARED_DATA to its folder")
    return folder
