"""Steps that read the tasks, take out those that cannot be used, and look at them and their reward before training."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from materializers.tables import TaskSetMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import current_runtime
from mlops.runs.use import fetch_use
from rlft.config import EnvironmentConfig, HarnessConfig, RewardConfig, TasksConfig, WarmStartConfig
from rlft.models.tokens import PromptCheck
from rlft.rewards.audit.report import AuditReport
from rlft.rewards.audit.rewards import audit_reward
from rlft.tasks import contamination
from rlft.tasks import ingest_tasks as ingest
from rlft.tasks.contamination import ContaminationReport
from rlft.tasks.ingest import leave_out
from rlft.training.demonstration_file import shown_texts
from rlft.types import Split, TaskSet


@step(enable_cache=False, output_materializers=TaskSetMaterializer)
def ingest_tasks(
    tasks: TasksConfig,
    environment: str,
    tracking_uri: str = "",
    warm_start: WarmStartConfig | None = None,
) -> Annotated[TaskSet, "tasks"]:
    """Read, validate, split and fingerprint the tasks. Not cached: the source may have changed, and reading is cheap.

    Tasks from use are read from the MLflow at an address; without one there are none, as where models are only
    measured.
    """
    use = fetch_use(tasks.use, tracking_uri, shown_texts(warm_start))
    progress = current_runtime().lent.progress
    return ingest(tasks, environment=environment, seed=tasks.seed, progress=progress, use=use)


@step(enable_cache=False, output_materializers=TaskSetMaterializer)
def leave_out_tasks(tasks: TaskSet, prompts: PromptCheck) -> Annotated[TaskSet, "tasks"]:
    """Return the tasks that the model can read. Not cached, as it is cheap and warns each time."""
    return leave_out(tasks, prompts.too_long, prompts.unreadable, prompts.context_length)


@step(cache_policy=cache_policies.CONTAMINATION, output_materializers=ReportMaterializer)
def find_contamination(
    tasks: TaskSet, splits: list[Split], warm_start: WarmStartConfig | None, demonstrations: str
) -> Annotated[ContaminationReport, "contamination"]:
    """Compare the tasks of `splits` with the train tasks, and with the demonstrations of a file."""
    del demonstrations  # the hash of their file, part of the cache key
    evaluated = {name: tasks.split(name) for name in splits}
    return contamination.find_contamination(evaluated, tasks.split("train"), shown_texts(warm_start))


@step(cache_policy=cache_policies.AUDIT, output_materializers=ReportMaterializer)
def audit_rewards(
    tasks: TaskSet,
    environment: EnvironmentConfig,
    reward: RewardConfig,
    harness: HarnessConfig,
    fingerprints: str,
    seed: int,
) -> Annotated[AuditReport, "reward_audit"]:
    """Score gold and attacks of many kinds; the pipeline stops if one of them is paid like gold."""
    del fingerprints  # of the reward's code and the tools', part of the cache key
    runtime = current_runtime()
    return audit_reward(
        tasks.split("train"),
        runtime.environment(environment),
        reward,
        harness=harness,
        seed=seed,
        progress=runtime.lent.progress,
    )
