"""The step `take_as_one_split` makes all tasks of a source one split."""

from typing import Annotated

from zenml import step

from materializers.tables import TaskSetMaterializer
from rlft.suites.tasks import as_one_split
from rlft.types import TaskSet


@step(enable_cache=False, output_materializers=TaskSetMaterializer)
def take_as_one_split(tasks: TaskSet) -> Annotated[TaskSet, "tasks"]:
    """Return all tasks as those of `test`. Not cached, as it is cheap."""
    return as_one_split(tasks)
