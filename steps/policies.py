"""Steps that bring a model: the base policy, one that is warm-started, of a folder or a hub, registered, or asked."""

from pathlib import Path
from typing import Annotated

from zenml import step

from materializers.policy import PolicyMaterializer
from materializers.report import ReportMaterializer
from mlops.registry.client import current_champion, download_version
from mlops.runs import cache_policies
from mlops.runs.runtime import current_runtime
from mlops.tracking.address import PATIENT_HTTP, answering, tracking_address
from rlft.config import EngineSettings, EnvironmentConfig, HarnessConfig, ModelControl, PolicyConfig, WarmStartConfig
from rlft.config.environment import Isolation
from rlft.engines.chat_endpoint import AskedModel
from rlft.environments.contract.base import prompt_messages
from rlft.errors import RlftError
from rlft.harness.asked import get_to_know
from rlft.harness.preparing import open_prepared, prepare_policy
from rlft.harness.rollout import SamplingSettings
from rlft.models import PolicyFolder, save_policy
from rlft.models.origin import create_policy
from rlft.models.tokens import PromptCheck, check_prompts
from rlft.tasks.splits import texts_from_use
from rlft.training.demonstration_file import check_overlap
from rlft.training.imitation import ENOUGH, Memory, SftReport, run_sft
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
    """Imitate demonstrations for the configured steps."""
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
        memory=memory,
    )
    folder = save_policy(live, runtime.new_folder(), stage="warm_start", parent=parent)
    runtime.policies.keep(live)
    return folder, report


@step(enable_cache=False, output_materializers=PolicyMaterializer)
def open_model(
    policy: PolicyConfig, environments: list[EnvironmentConfig], harnesses: list[HarnessConfig], seed: int
) -> Annotated[PolicyFolder, "policy"]:
    """Make a policy of a model, ready for each environment. Not cached: a folder may have changed."""
    runtime = current_runtime()
    runtime.lent.progress(0, None, "loading the model")
    opened = map(runtime.environment, environments)
    live = open_prepared(policy, list(zip(opened, harnesses, strict=True)), seed=seed)
    folder = save_policy(live, runtime.new_folder(), stage="base")
    runtime.policies.keep(live)
    return folder


@step(enable_cache=False, output_materializers=PolicyMaterializer)
def take_policy(folder: str) -> Annotated[PolicyFolder, "policy"]:
    """Make an artifact of a policy folder, once its weights are those that it says. Not cached: it may have changed."""
    found = PolicyFolder(Path(folder))
    found.check()
    return found


@step(enable_cache=False, output_materializers=PolicyMaterializer)
def fetch_version(tracking_uri: str, name: str, version: str) -> Annotated[PolicyFolder, "policy"]:
    """Make a policy artifact of a version, once its files are those that were registered. Not cached for that reason.

    Raises DamagedError for files that have changed, and TrackerError if MLflow gives none.
    """
    address = tracking_address(tracking_uri)
    with answering(address, PATIENT_HTTP):
        return PolicyFolder(download_version(address, name, version, current_runtime().new_folder()))


@step(output_materializers=PolicyMaterializer)
def fetch_champion(
    tracking_uri: str, name: str, version: str, weights_hash: str
) -> Annotated[PolicyFolder, "champion_policy"]:
    """Make a policy artifact of the registered version, to be evaluated beside the new one.

    Raises RlftError if another version has become champion since the pipeline's body asked, and TrackerError if MLflow
    gives none.
    """
    del weights_hash  # part of the cache key: a deleted model may come back under the same name and version
    address = tracking_address(tracking_uri)
    with answering(address, PATIENT_HTTP):
        champion = current_champion(address, name)
        if champion is None or champion.version != version:
            raise RlftError(
                f"version {version} of {name} is no longer the champion",
                where="registry",
                fix="`rlft resume` goes on with the run, and compares with the new champion",
            )
        return PolicyFolder(download_version(address, name, version, current_runtime().new_folder()))


@step(enable_cache=False, output_materializers=ReportMaterializer)
def ask_model(
    tasks: TaskSet, control: ModelControl, environment: EnvironmentConfig, sampling: SamplingSettings
) -> Annotated[AskedModel, "asked_model"]:
    """Ask about one task, so that a wrong address, key or name stops the run. Not cached: the endpoint may be gone."""
    opened = current_runtime().environment(environment)
    return get_to_know(control, tasks.tasks[0], opened, sampling.harness, sampling.of_tokens)
