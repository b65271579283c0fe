"""The step `collect_pass_rates` finds how often earlier runs of the same experiment have solved each task."""

from typing import Annotated

from zenml import step
from zenml.steps.step_context import get_step_context

from materializers.report import ReportMaterializer
from mlops.runs.pass_rates import Sought, kept_rates
from rlft.config import RewardConfig
from rlft.curriculum.rates import KeptRates, PassRates
from rlft.policy import PolicyFolder
from rlft.types import TaskSet


@step(enable_cache=False, output_materializers={"kept_rates": ReportMaterializer, "pass_rates": ReportMaterializer})
def collect_pass_rates(
    tasks: TaskSet,
    start: PolicyFolder,
    experiment: str,
    environment_fingerprint: str,
    reward: RewardConfig,
    reward_fingerprint: str,
    earlier_runs: int,
) -> tuple[Annotated[KeptRates, "kept_rates"], Annotated[PassRates, "pass_rates"]]:
    """Read them from what these runs have stored; the rates of the run itself are empty yet.

    Not cached, as there may be new runs. Rates of the same content give the same cache keys from here on.
    """
    sought = Sought(
        experiment,
        environment_fingerprint,
        reward_fingerprint,
        reward.weights,
        reward.full,
        start.metadata.weights_hash,
    )
    return kept_rates(get_step_context().pipeline_run, sought, tasks, earlier_runs), PassRates()
