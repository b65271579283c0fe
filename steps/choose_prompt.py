"""The step `choose_prompt` chooses the examples in the prompt of a control that is not trained."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import current_runtime
from rlft.config import WarmStartConfig
from rlft.controls import few_shot
from rlft.controls.few_shot import PromptReport
from rlft.controls.judging import Judge, Validation
from rlft.engines.chat_endpoint import AskedModel
from rlft.policy import PolicyFolder
from rlft.types import TaskSet


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
