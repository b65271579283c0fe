"""Steps that end a run: decide whether its policy becomes the champion, register it, and write the page about it."""

import logging
from typing import Annotated, Any

from zenml import step
from zenml.types import HTMLString

from materializers.report import PageMaterializer, ReportMaterializer
from mlops.home.folder import find_home
from mlops.home.processes import aliases_lock
from mlops.registry.logged_model import ServedFiles
from mlops.registry.versions import register_policy_version
from mlops.runs import cache_policies
from mlops.runs.finding import find_run
from mlops.runs.report import make_report
from mlops.runs.runtime import current_runtime
from mlops.runs.shared import SharedRun
from mlops.summary.summary import Summary
from mlops.summary.version_facts import Registration, verdict_blocks, version_facts
from mlops.tracking.address import HOME, PATIENT_HTTP, answering, tracking_address
from rlft.config import Config, EvaluationConfig, PromotionConfig
from rlft.evaluation.promotion import Decision, Known, RegisteredVersion
from rlft.evaluation.promotion import decide_promotion as decide
from rlft.evaluation.searches.constant import ConstantAnswer
from rlft.evaluation.slices import slices_of
from rlft.models import PolicyFolder
from rlft.reporting.model_card import version_files
from rlft.texts.secrets import hide
from rlft.types import Evaluation, TaskSet


@step(cache_policy=cache_policies.EVALUATION, output_materializers=ReportMaterializer)
def decide_promotion(
    trained: Evaluation,
    base: Evaluation,
    tasks: TaskSet,
    evaluation: EvaluationConfig,
    promotion: PromotionConfig,
    known: Known,
    warm_start: Evaluation | None = None,
    champion: Evaluation | None = None,
    constant: ConstantAnswer | None = None,
) -> Annotated[Decision, "promotion_decision"]:
    """Compare the trained policy with every other arm on the split `gate`, and on others that the rules name."""
    arms = {"trained": trained, "base": base, "warm_start": warm_start, "champion": champion, "constant": constant}
    return decide(
        {name: arm for name, arm in arms.items() if arm is not None},
        evaluation.metric,
        promotion,
        known,
        {
            f"{column}={value}": ids
            for column, values in slices_of(tasks.split("gate"), promotion.slices).items()
            for value, ids in values.items()
        },
    )


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


logger = logging.getLogger(__name__)


@step(enable_cache=False, output_materializers=PageMaterializer)
def write_report(run_id: str, summary: dict[str, Any]) -> Annotated[HTMLString, "report"]:
    """Write the page about a run by its id; `summary` is what came of it, as `Summary` dumps it.

    A page that cannot be made says why, since by then the run has come to what it has come to.
    """
    try:
        return HTMLString(make_report(SharedRun(find_home(), find_run(run_id)), Summary.model_validate(summary)))
    except Exception as cause:  # a store that is away, or an artifact that has changed: both are told elsewhere
        logger.warning("ZenML has no report of the run; `rlft report` writes it: %s", hide(str(cause)))
        return HTMLString("<p>The report could not be made. <code>rlft report</code> writes it and says why not.</p>")
