"""The step `choose_prompt` chooses the examples in the prompt of a control that is not trained."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.runtime import cache_policies
from mlops.runtime.runtime import current_runtime
from rlft.config import EnvironmentConfig, RewardConfig, WarmStartConfig
from rlft.controls import few_shot
from rlft.controls.few_shot import PromptReport
from rlft.controls.judging import Judge
from rlft.engines.chat_endpoint import AskedModel
from rlft.policy import PolicyFolder
from rlft.rollout import SamplingSettings
from rlft.types import TaskSet


@step(cache_policy=cache_policies.PROMPT, output_materializers=ReportMaterializer)
def choose_prompt(
    policy: PolicyFolder | AskedModel,
    tasks: TaskSet,
    warm_start: WarmStartConfig | None,
    environment: EnvironmentConfig,
    reward: RewardConfig,
    sampling: SamplingSettings,
    num_generations: int,
    metric: str,
    environment_fingerprint: str,
    device: str,
    flops: float | None,
    validation_flops: float | None,
) -> Annotated[PromptReport, "prompt_report"]:
    """Validate the policy with examples in its prompt, as `flops` allow, and say with which it does best."""
    del environment_fingerprint  # part of the cache key
    runtime = current_runtime()
    progress, opened = runtime.lent.progress, runtime.environment(environment)
    return few_shot.choose_prompt(
        runtime.player(policy, sampling, device),
        warm_start,
        Judge(tasks, opened, None, sampling, reward, num_generations, metric, progress),
        flops=flops,
        validation_flops=validation_flops,
        isolation=sampling.harness.isolation,
        progress=progress,
    )
