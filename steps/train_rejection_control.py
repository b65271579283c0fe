"""The step `train_rejection_control` trains the control by rejection sampling, which imitates its own best attempts."""

from typing import Annotated

from zenml import step

from materializers.policy import PolicyMaterializer
from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import current_runtime
from rlft.config import TrainingConfig, WarmStartConfig
from rlft.controls.best import ControlReport
from rlft.controls.judging import Judge, Validation
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
    validation: Validation,
    training: TrainingConfig,
    sampling: SamplingSettings,
    device: str,
    rounds: int,
    flops: float,
    validation_flops: float,
) -> tuple[Annotated[PolicyFolder, "policy"], Annotated[ControlReport, "control_report"]]:
    """Repeat sampling and imitating for as many rounds as GRPO within `flops`, and keep the best validated policy."""
    runtime = current_runtime()
    live = runtime.policies.borrow(policy, device)
    parent, progress = live.metadata.content_hash, runtime.lent.progress
    engine = runtime.engine(sampling.engine, sampling.batch_size, live.device.type)
    report = run_rejection_control(
        live,
        warm_start,
        Judge.of(validation, tasks, runtime.environment(validation.environment), engine, progress),
        sampling,
        training,
        rounds=rounds,
        validate_every=validation.every,
        flops=flops,
        validation_flops=validation_flops,
    )
    folder = save_policy(live, runtime.new_folder(), stage="rejection_sampling_control", parent=parent)
    runtime.policies.keep(live)
    return folder, report
