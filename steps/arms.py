"""Steps that make the arms with which a trained policy is compared: trained, prompted, or constant."""

from typing import Annotated, Any, cast

from zenml import step

from materializers.policy import PolicyMaterializer
from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import current_runtime
from rlft.config import EnvironmentConfig, HarnessConfig, RewardConfig
from rlft.engines.chat_endpoint import AskedModel
from rlft.evaluation.arms import ARMS, PolicyArm, PromptArm
from rlft.evaluation.searches.constant import ConstantAnswer, best_constant
from rlft.evaluation.searches.prompts import PromptReport
from rlft.evaluation.searches.validator import ControlReport, Terms, Validation, Validator
from rlft.models import PolicyFolder, save_policy
from rlft.rewards.specification.grader import billed
from rlft.types import Split, TaskSet


@step(
    cache_policy=cache_policies.ARM,
    output_materializers={"policy": PolicyMaterializer, "control_report": ReportMaterializer},
)
def train_arm(
    policy: PolicyFolder,
    tasks: TaskSet,
    arm: str,
    settings: dict[str, Any],
    terms: Terms,
    validation: Validation,
    device: str,
) -> tuple[Annotated[PolicyFolder, "policy"], Annotated[ControlReport, "control_report"]]:
    """Train the arm of this name from `policy` within its terms, and keep the best validated one."""
    runtime, made = current_runtime(), cast(PolicyArm, ARMS[arm].model_validate(settings))
    live = runtime.policies.borrow(policy, device)
    parent, progress, sampling = live.metadata.content_hash, runtime.lent.progress, validation.sampling
    engine = runtime.engine(sampling.engine, sampling.batch_size, live.device.type)
    validator = Validator.of(validation, tasks, runtime.environment(validation.environment), engine, progress)
    report = billed(made.train)(live, validator, terms, progress)
    folder = save_policy(live, runtime.new_folder(), stage=f"{arm}_control", parent=parent)
    runtime.policies.keep(live)
    return folder, report


@step(cache_policy=cache_policies.ARM, output_materializers=ReportMaterializer)
def choose_prompt(
    policy: PolicyFolder | AskedModel,
    tasks: TaskSet,
    arm: str,
    settings: dict[str, Any],
    terms: Terms,
    validation: Validation,
    device: str,
) -> Annotated[PromptReport, "prompt_report"]:
    """Validate the policy with texts before its prompts, as the terms allow, and say with which it does best."""
    runtime, made = current_runtime(), cast(PromptArm, ARMS[arm].model_validate(settings))
    progress, environment = runtime.lent.progress, runtime.environment(validation.environment)
    validator = Validator.of(validation, tasks, environment, None, progress)
    return billed(made.choose)(runtime.player(policy, validation.sampling, device), validator, terms, progress)


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
