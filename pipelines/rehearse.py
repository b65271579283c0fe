"""The pipeline `rehearse`: what a run of `train` does first, where a stack would run it."""

from __future__ import annotations

from typing import Any

from mlflow import MlflowClient
from zenml import pipeline

from mlops.runs.settings import stored_config
from mlops.runtime.movable_cache import leave_home_out
from mlops.runtime.runtime import start_runtime, stop_runtime
from mlops.tracking.address import tracking_address
from mlops.tracking.answers import answering
from pipelines.stages import Stages
from pipelines.train import STEPS
from steps.ingest_tasks import ingest_tasks
from steps.try_set_up import try_set_up

STEPS_OF_ALL = (*STEPS, try_set_up)
"""The steps of `train`, too: importing them imports all code of a run."""


@pipeline(dynamic=True, depends_on=[ingest_tasks, try_set_up], on_init=start_runtime, on_cleanup=stop_runtime)
def rehearse(config: dict[str, Any], tracking_uri: str) -> None:
    """Ask MLflow, read the tasks, build the environment, and call the loss. The arguments are those of `train`."""
    leave_home_out()
    settings, address = stored_config(config, "config"), tracking_address(tracking_uri)
    with answering(address):
        MlflowClient(address).search_experiments(max_results=1)
    stages = Stages.of(settings)
    try_set_up(stages.ingest(tracking_uri), settings.environment, settings.training)
