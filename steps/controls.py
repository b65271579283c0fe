"""Steps that make the controls, against which training by reinforcement is held: trained, prompted, or constant."""

from typing import Annotated

from zenml import step

from materializers.policy import PolicyMaterializer
from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import current_runtime
from rlft.config import EnvironmentConfig, HarnessConfig, RewardConfig, TrainingConfig, WarmStartConfig
from rlft.controls import few_shot
from rlft.controls.best import ControlReport, Judge, Validation
from rlft.controls.constant import ConstantAnswer, best_constant
from rlft.controls.few_shot import PromptReport
from rlft.controls.rejection import run_rejection_control
from rlft.controls.sft import run_sft_control
from rlft.engines.chat_endpoint import AskedModel
from rlft.harness.rollout import SamplingSettings
from rlft.models import PolicyFolder, save_policy
from rlft.training.imitation import ENOUGH, Memory
from rlft.types import Split, TaskSet


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


@step(cache_policy=cache_policies.PROMPT, output_materializers=ReportMaterializer)
def choose_prompt(
    policy: PolicyFolder | AskedModel,
    tasks: TaskSet,
    warm_start: WarmStartConfig | None,
    validation: Validation,
    device: str,
    flops: float | None,
    validation_flops: float | None,
) -> Annotated[PromptReport, "prompt_report"]:
    """Validate the policy with examples in its prompt, as `flops` allow, and say with which it does best."""
    runtime, sampling = current_runtime(), validation.sampling
    progress, opened = runtime.lent.progress, runtime.environment(validation.environment)
    return few_shot.choose_prompt(
        runtime.player(policy, sampling, device),
        warm_start,
        Judge.of(validation, tasks, opened, None, progress),
        flops=flops,
        validation_flops=validation_flops,
        isolation=sampling.harness.isolation,
        progress=progress,
    )


@step(cache_policy=cache_policies.CONSTANT, output_materializers=ReportMaterializer)
def evaluate_constant(
    tasks: TaskSet,
    said: list[str],
    environment: EnvironmentConfig,
    reward: RewardConfig,
    harness: HarnessConfig,
    fingerprints: str,
    metric: str,
    splits: list[Split],
) -> Annotated[ConstantAnswer, "constant_answer"]:
    """Choose a constant answer on validation, among them what policies say often, and evaluate it on `splits`."""
    del fingerprints  # of the reward's code and the tools', part of the cache key
    runtime = current_runtime()
    return best_constant(
        tasks,
        said,
        runtime.environment(environment),
        reward,
        harness,
        metric=metric,
        splits=splits,
        progress=runtime.lent.progress,
    )
