"""The step `ingest_tasks` reads the tasks from their source."""

from typing import Annotated

from zenml import step

from materializers.tables import TaskSetMaterializer
from mlops.runtime.runtime import current_runtime
from rlft.config import TasksConfig
from rlft.tasks import ingest_tasks as ingest
from rlft.types import TaskSet


@step(enable_cache=False, output_materializers=TaskSetMaterializer)
def ingest_tasks(tasks: TasksConfig, environment: str) -> Annotated[TaskSet, "tasks"]:
    """Read, validate, split and fingerprint the tasks. Not cached: the file may have changed, and reading is cheap."""
    return ingest(tasks, environment=environment, seed=tasks.seed, progress=current_runtime().lent.progress)
