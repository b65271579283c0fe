"""The step `register_policy` makes the trained policy a version in MLflow's model registry."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.home.folder import find_home
from mlops.home.locks import aliases_lock
from mlops.registry.versions import register_policy_version
from mlops.runtime.runtime import current_runtime
from mlops.tracking.address import HOME, tracking_address
from mlops.tracking.answers import answering
from mlops.tracking.reach import PATIENT_HTTP
from rlft.config import EnvironmentConfig, HarnessConfig
from rlft.harness.shown import shown_context
from rlft.policy import PolicyFolder
from rlft.policy.folder import load_tokenizer
from rlft.promotion import Decision, RegisteredVersion
from rlft.types import TaskSet
from rlft.visible import visible_json


@step(enable_cache=False, output_materializers=ReportMaterializer)
def register_policy(
    policy: PolicyFolder,
    decision: Decision,
    tracking_uri: str,
    run_id: str,
    name: str,
    max_new_tokens: int,
    tags: dict[str, str],
    tasks: TaskSet,
    environment: EnvironmentConfig,
    harness: HarnessConfig,
    approval: str = "none",
) -> Annotated[RegisteredVersion, "registered_version"]:
    """Register as `challenger`, and as `champion` if the decision says so and no `approval` of a person is `required`.
    Doing it twice makes one version.

    All files of the policy are read again first: nothing that has changed since it was trained is registered. What the
    environment shows before a task goes with the version. Raises TrackerError if MLflow does not take it.
    """
    policy.check()
    shown = shown_context(current_runtime().environment(environment), harness, tasks.tasks, load_tokenizer(policy))
    address = tracking_address(tracking_uri)
    with answering(address, PATIENT_HTTP):
        return register_policy_version(
            address,
            run_id,
            name,
            policy.path,
            decision=decision,
            max_new_tokens=max_new_tokens,
            description={"context.json": visible_json(shown.to_json())},
            tags=tags,
            approval=approval == "required",
            alone=aliases_lock(find_home()) if tracking_uri == HOME else None,
        )
