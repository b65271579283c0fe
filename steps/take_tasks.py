"""The step `take_tasks` makes the tasks that a run has stored those of a replay."""

from typing import Annotated

from zenml import step

from materializers.tables import TaskSetMaterializer
from rlft.types import TaskSet


@step(enable_cache=False, output_materializers=TaskSetMaterializer)
def take_tasks(stored: TaskSet) -> Annotated[TaskSet, "tasks"]:
    """Return the tasks as they are. ZenML's cache keys have outputs of a run's own steps before others, so that results
    of the run would not be found by the tasks of another run."""
    return stored
