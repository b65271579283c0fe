"""The step `match_tasks` finds the tasks of a past run again among tasks that were read anew."""

from typing import Annotated

from zenml import step

from materializers.tables import TaskSetMaterializer
from rlft.tasks.matching import match_tasks as match
from rlft.types import TaskSet


@step(enable_cache=False, output_materializers=TaskSetMaterializer)
def match_tasks(stored: TaskSet, read: TaskSet) -> Annotated[TaskSet, "tasks"]:
    """Return the stored tasks with the answers and prompts that they have now. Not cached: it is cheap."""
    return match(stored, read)
