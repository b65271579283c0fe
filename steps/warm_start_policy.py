"""The step `warm_start_policy` fine-tunes on demonstrations, before reinforcement learning."""

from typing import Annotated

from zenml import step

from materializers.policy import PolicyMaterializer
from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import current_runtime
from rlft.config import EnvironmentConfig, WarmStartConfig
from rlft.policy import PolicyFolder, save_policy
from rlft.sft.overlap import check_overlap
from rlft.sft.training import ENOUGH, Memory, SftReport, run_sft
from rlft.types import TaskSet
from rlft.workers.settings import Isolation


@step(
    cache_policy=cache_policies.WARM_START,
    output_materializers={"policy": PolicyMaterializer, "sft_report": ReportMaterializer},
)
def warm_start_policy(
    policy: PolicyFolder,
    tasks: TaskSet,
    warm_start: WarmStartConfig,
    environment: EnvironmentConfig,
    environment_fingerprint: str,
    device: str,
    seed: int,
    isolation: Isolation | None = None,
    memory: Memory = ENOUGH,
    shares: dict[str, float] | None = None,
) -> tuple[Annotated[PolicyFolder, "policy"], Annotated[SftReport, "sft_report"]]:
    """Imitate demonstrations for the configured steps. Training that was cut off goes on from its last checkpoint."""
    del environment_fingerprint  # part of the cache key
    check_overlap(warm_start, tasks)
    runtime = current_runtime()
    live = runtime.policies.borrow(policy, device)
    parent = live.metadata.content_hash
    report = run_sft(
        live,
        warm_start,
        tasks.split("train"),
        runtime.environment(environment),
        seed=seed,
        shares=shares,
        isolation=isolation,
        progress=runtime.lent.progress,
        checkpoints=runtime.checkpoints("warm_start", cache_policies.warm_start_code()),
        memory=memory,
    )
    folder = save_policy(live, runtime.new_folder(), stage="warm_start", parent=parent)
    runtime.policies.keep(live)
    return folder, report
