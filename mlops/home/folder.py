"""The home of runs: `.rlft/` holds all that they leave, apart from any ZenML or MLflow set-up the user has."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rlft.errors import StorageError
from rlft.files import make_private

PROJECT = Path(__file__).resolve().parents[2]
"""The clone, or the folder that a wheel was installed into, which has no requirements."""

PINS = PROJECT / "requirements" / "base.txt"
"""The exact versions of all packages."""


logger = logging.getLogger(__name__)
NOTE = "home.json"
SCHEDULES = "schedules"  # the folder of schedules
_NAME, _GITIGNORE, _VARIABLE = ".rlft", ".gitignore", "RLFT_HOME"


@dataclass(frozen=True, slots=True)
class Home:
    """The folder that holds all runs that are not on a stack of the user's."""

    root: Path

    @property
    def tracking_uri(self) -> str:
        """The address of the MLflow database in this folder."""
        return f"sqlite:///{self.databases[1]}"

    @property
    def databases(self) -> tuple[Path, Path]:
        """The files of ZenML's database and of MLflow's."""
        return self.root / "zenml/local_stores/default_zen_store/zenml.db", self.root / "mlflow.db"

    @property
    def note(self) -> Path:
        """The file that says that the databases are made, and in which place."""
        return self.root / NOTE

    @property
    def mlflow_artifacts(self) -> Path:
        """The folder in which MLflow keeps artifacts."""
        return self.root / "mlflow-artifacts"

    @property
    def judges(self) -> Path:
        """The folder that holds what judges have answered."""
        return self.root / "judges"

    def run_folder(self, name: str, *, shared: bool = False) -> Path:
        """Return the folder of the run of this name; those of runs that are `shared` on a stack lie apart."""
        return self.root / ("shared" if shared else "runs") / name

    def make(self) -> None:
        """Make the folder for its owner alone: it holds conversations, models and settings. Raises StorageError.

        The access to a folder that exists is narrowed if it is called `.rlft` or is empty.
        """
        try:
            if self.root.name == _NAME or not self.root.exists() or not any(self.root.iterdir()):
                make_private(self.root)
                ignored = self.root / _GITIGNORE
                if not ignored.exists():
                    ignored.write_text("*\n")  # a home often lies in a repository, whose commits must not hold it
            if self.root.stat().st_mode & 0o077:
                logger.warning("%s can be read by others: it is left so", self.root)
        except OSError as cause:
            raise StorageError(
                f"this folder cannot be made: {cause}", where=str(self.root), fix="set RLFT_HOME to a folder of yours"
            ) from cause


def find_home() -> Home:
    """Return the home: the environment variable `RLFT_HOME`, else `.rlft` in the working directory.

    Raises StorageError where that cannot be told, as the working directory was removed, or if it is no folder.
    """
    try:
        root = Path(os.environ.get(_VARIABLE) or _NAME).resolve()
        if root.exists() and not (root.is_dir() and os.access(root, os.R_OK | os.X_OK)):
            fix = "make it a folder that you can read, or set RLFT_HOME to another one"
            raise StorageError("this is no folder that can be read", where=str(root), fix=fix)
        return Home(root)
    except FileNotFoundError as cause:
        fix = "go to another one, or set RLFT_HOME to an absolute path"
        raise StorageError("the working directory was removed", where="RLFT_HOME", fix=fix) from cause


@contextmanager
def stay_in(home: Home) -> Iterator[None]:
    """Let `find_home` return this home from here on, as an environment's code may change the working directory."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = str(home.root)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_VARIABLE, None)
        else:
            os.environ[_VARIABLE] = before
