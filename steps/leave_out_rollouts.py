"""The step `leave_out_rollouts` takes out the attempts at tasks that are gone."""

from typing import Annotated

from zenml import step

from materializers.tables import RolloutsMaterializer
from rlft.rewards.same_prompts import of_tasks
from rlft.types import Rollouts, TaskSet


@step(enable_cache=False, output_materializers=RolloutsMaterializer)
def leave_out_rollouts(tasks: TaskSet, rollouts: Rollouts) -> Annotated[Rollouts, "rollouts"]:
    """Return the rollouts of these tasks alone. Not cached: it is cheap."""
    return of_tasks(rollouts, tasks.by_id())
