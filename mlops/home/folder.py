"""The home of runs: `.rlft/` holds all that they leave, apart from any ZenML or MLflow set-up the user has.

Nothing here imports ZenML, which reads its environment when it is imported.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rlft.errors import StorageError
from rlft.files import make_private, write_file

# The clone, or the folder that a wheel was installed into, which has no requirements.
PROJECT = Path(__file__).resolve().parents[2]
PINS = PROJECT / "requirements" / "base.txt"

logger = logging.getLogger(__name__)
LOCK, BACKUP = "stores.lock", "before-move"
_NAME, _GITIGNORE = ".rlft", ".gitignore"
# All that rlft, the databases' own journals and `make demo` put into a home.
_CONTENTS = {
    _GITIGNORE, BACKUP, LOCK, "checkpoints", "demo.json", "demo.json.partial", "logs", "mlflow-artifacts", "mlflow.db",
    "mlflow.db-journal", "mlflow.db-shm", "mlflow.db-wal", "runs", "scratch", "serve-engine", "unfinished.json",
    "unfinished.json.partial", "zenml",
}  # fmt: skip

_ALWAYS = {  # environment variables of every process of rlft
    "ZENML_ANALYTICS_OPT_IN": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "ZENML_PARAMETER_SIZE_THRESHOLD": "65536",  # small settings stay readable parameters instead of artifacts
    "TOKENIZERS_PARALLELISM": "false",
    "AUTO_OPEN_DASHBOARD": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


@dataclass(frozen=True, slots=True)
class Home:
    """The folder that holds all runs that are not on a stack of the user's."""

    root: Path

    @property
    def tracking_uri(self) -> str:
        """The address of the MLflow database in this folder."""
        return f"sqlite:///{self.root / 'mlflow.db'}"

    @property
    def mlflow_artifacts(self) -> Path:
        """The folder in which MLflow keeps artifacts."""
        return self.root / "mlflow-artifacts"

    @property
    def checkpoints(self) -> Path:
        """The folder in which supervised stages keep checkpoints."""
        return self.root / "checkpoints"

    def summary_file(self, run_id: str) -> Path:
        """Return the path of the summary of a run, by ZenML's id."""
        return self.root / "runs" / f"{run_id}.json"

    def missed_file(self, run_id: str) -> Path:
        """Return the path of what tracking could not write into MLflow, by ZenML's id of a run's first attempt."""
        return self.root / "runs" / f"{run_id}.missed.json"

    def make(self) -> None:
        """Make the folder for its owner alone: it holds conversations, models and settings. Raises StorageError.

        The access to a folder that exists is narrowed, unless it is someone else's, or has another name than rlft gives
        it and holds more than what rlft puts there. A warning says if it stays open to others.
        """
        if "?" in str(self.root):  # SQLite would make a file beside this folder, named by what stands before the mark
            raise StorageError(
                "the path holds a question mark, which ends the path in the address of a database",
                where=str(self.root),
                fix="set RLFT_HOME to a folder whose path has none",
            )
        try:
            is_ours = self._is_ours()
            if is_ours:
                make_private(self.root)
                ignored = self.root / _GITIGNORE
                if not ignored.exists():
                    ignored.write_text("*\n")  # a home often lies in a repository, whose commits must not hold it
            found = self.root.stat()
            if found.st_mode & 0o077:
                why = "cannot be narrowed" if is_ours else "holds more than runs"
                if found.st_uid != os.getuid():
                    why = "is another user's"
                logger.warning("%s can be read by others, and %s: it is left so", self.root, why)
        except OSError as cause:
            raise StorageError(
                f"this folder cannot be made: {cause}", where=str(self.root), fix="set RLFT_HOME to a folder of yours"
            ) from cause

    def _is_ours(self) -> bool:
        """Return whether nothing but rlft uses the folder."""
        if self.root.name == _NAME or not self.root.exists():
            return True
        return {entry.name for entry in self.root.iterdir()} <= _CONTENTS


def find_home() -> Home:
    """Return the home: the environment variable `RLFT_HOME`, else `.rlft` in the working directory."""
    return Home(Path(os.environ.get("RLFT_HOME") or _NAME).resolve())


def use_own_setup(home: Home) -> None:
    """Point ZenML at `home` for this process, whatever server the user has active. Call before importing zenml.

    Raises StorageError when the folder cannot be made.
    """
    home.make()
    try:
        (home.root / "zenml").mkdir(exist_ok=True)
    except OSError as cause:
        raise StorageError(
            f"nothing can be written there: {cause}", where=str(home.root), fix="set RLFT_HOME to a folder of yours"
        ) from cause
    for name in list(os.environ):  # what a user has set for a ZenML of their own would go before the settings in `home`
        if name.startswith(("ZENML_STORE_", "ZENML_ACTIVE_", "ZENML_BACKUP_SECRETS", "ZENML_SECRETS_STORE")):
            del os.environ[name]
    _opt_out(home.root / "zenml" / "config.yaml")
    os.environ["ZENML_CONFIG_PATH"] = str(_zenml_settings(home))
    os.environ["RLFT_TRACKING_URI"] = home.tracking_uri
    os.environ["RLFT_SCRATCH"] = str(home.root / "scratch")
    os.environ["ZENML_LOCAL_STORES_PATH"] = str(home.root / "zenml" / "local_stores")
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI", "MLFLOW_EXPERIMENT_ID", "MLFLOW_RUN_ID"):
        os.environ.pop(name, None)


def _opt_out(config: Path) -> None:
    """Turn telemetry off in settings that an earlier version of rlft made, so that ZenML's own commands send none."""
    if config.is_file() and os.access(config.parent, os.W_OK):
        text = config.read_text(encoding="utf-8")
        if (off := text.replace("analytics_opt_in: true", "analytics_opt_in: false")) != text:
            write_file(config, off)


def _zenml_settings(home: Home) -> Path:
    """Return the folder of ZenML's settings, which ZenML writes to whenever it starts.

    For a home that cannot be written to, such as an archive, it is a copy that lasts as long as this process.
    """
    own = home.root / "zenml"
    if os.access(own, os.W_OK) or not (own / "config.yaml").is_file():
        return own
    copy = Path(tempfile.mkdtemp(prefix="rlft-zenml-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    shutil.copyfile(own / "config.yaml", copy / "config.yaml")
    return copy


def quieten(verbose: bool) -> None:
    """Turn telemetry off, and the logs of libraries unless `verbose`. Call before importing zenml."""
    os.environ.update(_ALWAYS)
    os.environ["ZENML_LOGGING_VERBOSITY"] = "INFO" if verbose else "CRITICAL"
    os.environ["TRANSFORMERS_VERBOSITY"] = "info" if verbose else "error"
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "0" if verbose else "1"
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "INFO" if verbose else "ERROR")
