"""The environment variables by which ZenML, MLflow and other libraries use a home, and are quiet about it.

Nothing here imports ZenML, which reads its environment when it is imported.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
import uuid
from pathlib import Path

from mlops.home.folder import Home
from rlft.errors import StorageError
from rlft.files import folder_prefix, remove_left_behind, write_file

ALWAYS = {  # environment variables of every process of rlft
    "ZENML_ANALYTICS_OPT_IN": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "ZENML_PARAMETER_SIZE_THRESHOLD": "65536",  # small settings stay readable parameters instead of artifacts
    "TOKENIZERS_PARALLELISM": "false",
    "AUTO_OPEN_DASHBOARD": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


def use_own_setup(home: Home) -> None:
    """Point ZenML at `home` for this process, whatever server the user has active. Call before importing zenml.

    Raises StorageError when the folder cannot be made.
    """
    home.make()
    try:
        (home.root / "zenml").mkdir(exist_ok=True)
        settings = home.root / "zenml" / "config.yaml"
        if not settings.exists():  # for ZenML's own commands
            write_file(settings, _settings(home))
        os.environ["ZENML_CONFIG_PATH"] = str(_settings_of_process(home))
    except OSError as cause:
        raise StorageError(
            f"nothing can be written there: {cause}", where=str(home.root), fix="set RLFT_HOME to a folder of yours"
        ) from cause
    for name in list(os.environ):  # what a user has set for a ZenML of their own would go before the settings in `home`
        if name.startswith(("ZENML_STORE_", "ZENML_ACTIVE_", "ZENML_BACKUP_SECRETS", "ZENML_SECRETS_STORE")):
            del os.environ[name]
    os.environ["RLFT_TRACKING_URI"] = home.tracking_uri
    os.environ["RLFT_SCRATCH"] = str(home.root / "scratch")
    os.environ["RLFT_JUDGES"] = str(home.judges)
    os.environ["ZENML_LOCAL_STORES_PATH"] = str(home.root / "zenml" / "local_stores")
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI", "MLFLOW_EXPERIMENT_ID", "MLFLOW_RUN_ID"):
        os.environ.pop(name, None)


def _settings_of_process(home: Home) -> Path:
    """Return a folder for ZenML's settings, which it writes whenever it starts, neither at once nor under a lock.

    The folder goes with the process, or after a kill with a later one.
    """
    parent = home.root / "scratch"
    if os.access(home.root, os.W_OK):
        parent.mkdir(exist_ok=True)
    else:  # an archive
        parent = Path(tempfile.gettempdir())
    remove_left_behind("zenml", parent)
    folder = Path(tempfile.mkdtemp(prefix=folder_prefix("zenml"), dir=parent))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "config.yaml").write_text(_settings(home), encoding="utf-8")
    return folder


def _settings(home: Home) -> str:
    """Return what ZenML's settings begin with; the id, which it would draw anew, is a part of its cache keys."""
    return f"analytics_opt_in: false\nuser_id: {uuid.uuid5(uuid.NAMESPACE_URL, home.root.as_uri())}\n"


def quieten(verbose: bool) -> None:
    """Turn telemetry and unasked downloads off, and the logs of libraries unless `verbose`.

    Call before importing zenml.
    """
    os.environ.update(ALWAYS)
    os.environ["ZENML_LOGGING_VERBOSITY"] = "INFO" if verbose else "CRITICAL"
    os.environ["TRANSFORMERS_VERBOSITY"] = "info" if verbose else "error"
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "0" if verbose else "1"
    os.environ.setdefault("MLFLOW_MODEL_CATALOG_URI", "")  # else a judge fetches prices and limits from GitHub
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "INFO" if verbose else "ERROR")
    # It logs every error of a database with all its traces, and raises it as well; who catches it tells of it.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.NOTSET if verbose else logging.CRITICAL)
