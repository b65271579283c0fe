"""The step `train_sft_control` trains the SFT control, which imitates the answers of all train tasks."""

from typing import Annotated

from zenml import step

from materializers.policy import PolicyMaterializer
from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import current_runtime
from rlft.config import WarmStartConfig
from rlft.controls.best import ControlReport
from rlft.controls.judging import Judge, Validation
from rlft.controls.sft import run_sft_control
from rlft.policy import PolicyFolder, save_policy
from rlft.sft.training import ENOUGH, Memory
from rlft.types import TaskSet


@step(
    cache_policy=cache_policies.CONTROL,
    output_materializers={"policy": PolicyMaterializer, "control_report": ReportMaterializer},
)
def train_sft_control(
    policy: PolicyFolder,
    tasks: TaskSet,
    warm_start: WarmStartConfig | None,
    validation: Validation,
    device: str,
    flops: float,
    validation_flops: float,
    memory: Memory = ENOUGH,
) -> tuple[Annotated[PolicyFolder, "policy"], Annotated[ControlReport, "control_report"]]:
    """Search learning rate and length of supervised fine-tuning within `flops`, and keep the best validated policy."""
    runtime = current_runtime()
    live = runtime.policies.borrow(policy, device)
    parent, progress = live.metadata.content_hash, runtime.lent.progress
    sampling = validation.sampling
    engine = runtime.engine(sampling.engine, sampling.batch_size, live.device.type)
    report = run_sft_control(
        live,
        warm_start,
        Judge.of(validation, tasks, runtime.environment(validation.environment), engine, progress),
        flops=flops,
        validation_flops=validation_flops,
        seed=sampling.seed,
        isolation=sampling.harness.isolation,
        progress=progress,
        memory=memory,
    )
    folder = save_policy(live, runtime.new_folder(), stage="sft_control", parent=parent)
    runtime.policies.keep(live)
    return folder, report
