"""Steps that use the attempts of a past run again: its tasks, its attempts, and how a new reward differs."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from materializers.tables import RolloutsMaterializer, TaskSetMaterializer
from mlops.runs import cache_policies
from rlft.rewards.rescored import RescoreReport, of_tasks
from rlft.rewards.rescored import compare_rewards as compare
from rlft.tasks.ingest import match_tasks as match
from rlft.types import Rewards, Rollouts, TaskSet


@step(enable_cache=False, output_materializers=TaskSetMaterializer)
def take_tasks(stored: TaskSet) -> Annotated[TaskSet, "tasks"]:
    """Return the tasks as they are. ZenML's cache keys have outputs of a run's own steps before others, so that results
    of the run would not be found by the tasks of another run."""
    return stored


@step(enable_cache=False, output_materializers=TaskSetMaterializer)
def match_tasks(stored: TaskSet, read: TaskSet) -> Annotated[TaskSet, "tasks"]:
    """Return the stored tasks with the answers and prompts that they have now. Not cached: it is cheap."""
    return match(stored, read)


@step(enable_cache=False, output_materializers=RolloutsMaterializer)
def leave_out_rollouts(tasks: TaskSet, rollouts: Rollouts) -> Annotated[Rollouts, "rollouts"]:
    """Return the rollouts of these tasks alone. Not cached: it is cheap."""
    return of_tasks(rollouts, tasks.by_id())


@step(cache_policy=cache_policies.RESCORING, output_materializers=ReportMaterializer)
def compare_rewards(old: Rewards, new: Rewards) -> Annotated[RescoreReport, "rescore_report"]:
    """Say how the order of attempts within groups, and the parts, differ from one reward to the other."""
    return compare(old, new)
