"""The step `initialize_policy` makes the base policy, which everything starts from."""

from typing import Annotated

from zenml import step

from materializers.policy import PolicyMaterializer
from materializers.report import ReportMaterializer
from mlops.runs.runtime import current_runtime
from rlft.config import EngineSettings, EnvironmentConfig, HarnessConfig, PolicyConfig
from rlft.contract.base import prompt_messages
from rlft.harness.preparing import prepare_policy
from rlft.policy import PolicyFolder, save_policy
from rlft.policy.origin import create_policy
from rlft.policy.tokens import PromptCheck, check_prompts
from rlft.tasks.from_use import texts_from_use
from rlft.types import TaskSet


@step(
    enable_cache=False,
    output_materializers={"policy": PolicyMaterializer, "prompt_check": ReportMaterializer},
)
def initialize_policy(
    tasks: TaskSet,
    policy: PolicyConfig,
    environment: EnvironmentConfig,
    max_completion_length: int,
    engine: EngineSettings,
    harness: HarnessConfig,
    seed: int,
    is_next: bool = True,
) -> tuple[Annotated[PolicyFolder, "policy"], Annotated[PromptCheck, "prompt_check"]]:
    """Load or build a base policy, and check which prompts it can read. Not cached: a folder may have changed.

    It stays in memory if it `is_next`, the policy that the next steps are about.
    """
    runtime = current_runtime()
    runtime.lent.progress(0, None, "loading the model")
    live = create_policy(policy, seed=seed)
    env = runtime.environment(environment)
    prompt = prepare_policy(live, env, harness, policy)
    checked = check_prompts(
        live.tokenizer,
        [(task.id, prompt_messages(task, env)) for task in tasks.tasks],
        max_completion_length=max_completion_length,
        context_length=engine.context_length(live.context_length),
        encoded=map(prompt, tasks.tasks),
        from_use=texts_from_use(tasks.tasks),
        progress=runtime.lent.progress,
    )
    folder = save_policy(live, runtime.new_folder(), stage="base")
    if is_next:
        runtime.policies.keep(live)
    return folder, checked
