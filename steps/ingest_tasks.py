"""The step `ingest_tasks` reads the tasks from their source."""

from typing import Annotated

from zenml import step

from materializers.tables import TaskSetMaterializer
from mlops.runs.runtime import current_runtime
from mlops.runs.use import fetch_use
from rlft.config import TasksConfig, WarmStartConfig
from rlft.sft.overlap import shown_texts
from rlft.tasks import ingest_tasks as ingest
from rlft.types import TaskSet


@step(enable_cache=False, output_materializers=TaskSetMaterializer)
def ingest_tasks(
    tasks: TasksConfig,
    environment: str,
    tracking_uri: str = "",
    name: str = "",
    warm_start: WarmStartConfig | None = None,
) -> Annotated[TaskSet, "tasks"]:
    """Read, validate, split and fingerprint the tasks. Not cached: the source may have changed, and reading is cheap.

    Tasks from use are read from the MLflow at an address, for the registered model of this name; without one there are
    none, as where models are only measured.
    """
    use = fetch_use(tasks.use, tracking_uri, name, shown_texts(warm_start))
    progress = current_runtime().lent.progress
    return ingest(tasks, environment=environment, seed=tasks.seed, progress=progress, use=use)
