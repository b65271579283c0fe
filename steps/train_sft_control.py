"""The step `train_sft_control` trains the SFT control, which imitates the answers of all train tasks."""

from typing import Annotated

from zenml import step

from materializers.policy import PolicyMaterializer
from materializers.report import ReportMaterializer
from mlops.runtime import cache_policies
from mlops.runtime.runtime import current_runtime
from rlft.config import EnvironmentConfig, RewardConfig, WarmStartConfig
from rlft.controls.best import ControlReport
from rlft.controls.judging import Judge
from rlft.controls.sft import run_sft_control
from rlft.policy import PolicyFolder, save_policy
from rlft.rollout import SamplingSettings
from rlft.sft.training import Memory
from rlft.types import TaskSet


@step(
    cache_policy=cache_policies.CONTROL,
    output_materializers={"policy": PolicyMaterializer, "control_report": ReportMaterializer},
)
def train_sft_control(
    policy: PolicyFolder,
    tasks: TaskSet,
    warm_start: WarmStartConfig | None,
    environment: EnvironmentConfig,
    reward: RewardConfig,
    sampling: SamplingSettings,
    num_generations: int,
    metric: str,
    environment_fingerprint: str,
    device: str,
    flops: float,
    validation_flops: float,
    token_budget: int | None = None,
    checkpointing: bool = False,
) -> tuple[Annotated[PolicyFolder, "policy"], Annotated[ControlReport, "control_report"]]:
    """Search learning rate and length of supervised fine-tuning within `flops`, and keep the best validated policy."""
    del environment_fingerprint  # part of the cache key
    runtime = current_runtime()
    live = runtime.policies.borrow(policy, device)
    parent, progress = live.metadata.content_hash, runtime.lent.progress
    engine = runtime.engine(sampling.engine, sampling.batch_size, live.device.type)
    opened = runtime.environment(environment)
    judge = Judge(tasks, opened, engine, sampling, reward, num_generations, metric, progress)
    report = run_sft_control(
        live,
        warm_start,
        judge,
        flops=flops,
        validation_flops=validation_flops,
        seed=sampling.seed,
        isolation=sampling.harness.isolation,
        progress=progress,
        memory=Memory(token_budget, checkpointing),
    )
    folder = save_policy(live, runtime.new_folder(), stage="sft_control", parent=parent)
    runtime.policies.keep(live)
    return folder, report
