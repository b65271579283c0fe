"""The step `train_rejection_control` trains the control by rejection sampling, which imitates its own best attempts."""

from typing import Annotated

from zenml import step

from materializers.policy import PolicyMaterializer
from materializers.report import ReportMaterializer
from mlops.runtime import cache_policies
from mlops.runtime.runtime import current_runtime
from rlft.config import EnvironmentConfig, RewardConfig, TrainingConfig, WarmStartConfig
from rlft.controls.best import ControlReport
from rlft.controls.judging import Judge
from rlft.controls.rejection import run_rejection_control
from rlft.policy import PolicyFolder, save_policy
from rlft.rollout import SamplingSettings
from rlft.types import TaskSet


@step(
    cache_policy=cache_policies.REJECTION,
    output_materializers={"policy": PolicyMaterializer, "control_report": ReportMaterializer},
)
def train_rejection_control(
    policy: PolicyFolder,
    tasks: TaskSet,
    warm_start: WarmStartConfig | None,
    environment: EnvironmentConfig,
    reward: RewardConfig,
    training: TrainingConfig,
    sampling: SamplingSettings,
    evaluation: SamplingSettings,
    num_generations: int,
    metric: str,
    environment_fingerprint: str,
    device: str,
    rounds: int,
    validate_every: int,
    flops: float,
    validation_flops: float,
) -> tuple[Annotated[PolicyFolder, "policy"], Annotated[ControlReport, "control_report"]]:
    """Repeat sampling and imitating for as many rounds as GRPO within `flops`, and keep the best validated policy."""
    del environment_fingerprint  # part of the cache key
    runtime = current_runtime()
    live = runtime.policies.borrow(policy, device)
    parent, progress = live.metadata.content_hash, runtime.lent.progress
    engine = runtime.engine(sampling.engine, sampling.batch_size, live.device.type)
    opened = runtime.environment(environment)
    report = run_rejection_control(
        live,
        warm_start,
        Judge(tasks, opened, engine, evaluation, reward, num_generations, metric, progress),
        sampling,
        training,
        rounds=rounds,
        validate_every=validate_every,
        flops=flops,
        validation_flops=validation_flops,
    )
    folder = save_policy(live, runtime.new_folder(), stage="rejection_sampling_control", parent=parent)
    runtime.policies.keep(live)
    return folder, report
