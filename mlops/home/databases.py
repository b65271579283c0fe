"""The two databases of a home, ZenML's and MLflow's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlops.home.folder import Home


@dataclass(frozen=True, slots=True)
class Database:
    """A database of a home by its `path` there.

    `beside` is a pattern of what lies in the home once there were runs; `holds` and `spares` say for people what is in
    it, and what of the runs is not.
    """

    name: str
    path: str
    beside: str
    holds: str
    spares: str

    def file(self, home: Home) -> Path:
        """Return its file in a home."""
        return home.root / self.path


ZENML = Database(
    "zenml",
    "zenml/local_stores/default_zen_store/zenml.db",
    "zenml/local_stores/[0-9a-f]*-*-*-*-*",
    "which runs there are and which artifacts are whose, so that `rlft resume` and the cache need it",
    "policies, rollouts and rewards lie beside it in zenml/local_stores/, summaries in runs/",
)
MLFLOW = Database(
    "mlflow",
    "mlflow.db",
    "mlflow-artifacts/*",
    "curves, traces, and the versions and aliases of registered models",
    "their weights lie beside it in mlflow-artifacts/, policies and rollouts in zenml/, summaries in runs/",
)
DATABASES = (ZENML, MLFLOW)
