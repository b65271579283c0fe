"""Experiments of MLflow: one that was deleted keeps its name, and takes nothing until it is restored."""

from __future__ import annotations

from mlflow import MlflowClient
from mlflow.entities import Experiment, LifecycleStage

from rlft.errors import TrackerError


def active_experiment(client: MlflowClient, name: str) -> Experiment | None:
    """Return an experiment by its name, or None if there is none.

    Raises TrackerError for one that is deleted, and what MLflow, a driver or the network throws.
    """
    found = client.get_experiment_by_name(name)
    if found is not None and found.lifecycle_stage != LifecycleStage.ACTIVE:
        fix = f"restore it with `mlflow experiments restore --experiment-id {found.experiment_id}`"
        raise TrackerError(f"the experiment {name!r} is deleted", where="MLflow", fix=fix)
    return found
