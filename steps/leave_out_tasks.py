"""The step `leave_out_tasks` takes out the tasks whose prompt the model cannot read."""

from typing import Annotated

from zenml import step

from materializers.tables import TaskSetMaterializer
from rlft.policy.tokens import PromptCheck
from rlft.tasks.fitting import leave_out
from rlft.types import TaskSet


@step(enable_cache=False, output_materializers=TaskSetMaterializer)
def leave_out_tasks(tasks: TaskSet, prompts: PromptCheck) -> Annotated[TaskSet, "tasks"]:
    """Return the tasks that the model can read. Not cached, as it is cheap and warns each time."""
    return leave_out(tasks, prompts.too_long, prompts.unreadable, prompts.context_length)
