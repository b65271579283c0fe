"""The step `register_policy` makes the trained policy a version in MLflow's model registry."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.home.folder import find_home
from mlops.home.processes import aliases_lock
from mlops.registry.logged_model import ServedFiles
from mlops.registry.versions import register_policy_version
from mlops.runs.runtime import current_runtime
from mlops.summary.version_facts import Registration, verdict_blocks, version_facts
from mlops.tracking.address import HOME, PATIENT_HTTP, answering, tracking_address
from rlft.card import version_files
from rlft.config import Config
from rlft.controls.constant import ConstantAnswer
from rlft.policy import PolicyFolder
from rlft.promotion import Decision, RegisteredVersion
from rlft.types import Evaluation, TaskSet


@step(enable_cache=False, output_materializers=ReportMaterializer)
def register_policy(
    policy: PolicyFolder,
    decision: Decision,
    registration: Registration,
    tasks: TaskSet,
    trained: Evaluation,
    base: Evaluation,
    warm_start: Evaluation | None = None,
    champion: Evaluation | None = None,
    constant: ConstantAnswer | None = None,
) -> Annotated[RegisteredVersion, "registered_version"]:
    """Register as `challenger`, and as `champion` if the decision says so and no approval of a person is required.
    Doing it twice makes one version, unless it is decided on anew: see `register_policy_version`.

    All files of the policy are read again first: nothing that has changed since it was trained is registered. What is
    known of it goes with the version (`version_facts`). Raises TrackerError if MLflow does not take it.
    """
    policy.check()
    config = Config.model_validate(registration.config)
    facts = version_facts(
        registration,
        decision.reasons,
        policy,
        current_runtime().environment(config.environment),
        tasks,
        {"base": base, "warm_start": warm_start, "trained": trained, "champion": champion, "constant": constant},
    )
    address = tracking_address(registration.tracking_uri)
    description, limit = version_files(facts), config.rollout.max_completion_length
    with answering(address, PATIENT_HTTP):
        return register_policy_version(
            address,
            registration.run_id,
            registration.name,
            ServedFiles(policy.path, description, limit),
            decision,
            tags=registration.tags,
            approval=config.promotion.approval == "required",
            anew=registration.anew,
            result=verdict_blocks(registration.told),
            alone=aliases_lock(find_home()) if registration.tracking_uri == HOME else None,
        )
