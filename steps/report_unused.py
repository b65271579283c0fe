"""The step `report_unused` reports rollouts that were sampled ahead and that nothing is trained on."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import tag_round
from rlft.training.ledger import unused_report
from rlft.types import Rewards, Rollouts, TrainReport


@step(cache_policy=cache_policies.UNUSED, output_materializers=ReportMaterializer)
def report_unused(rollouts: Rollouts, rewards: Rewards, round: int, age: int) -> Annotated[TrainReport, "train_report"]:
    """Note of every rollout of a round that training had ended before it could be trained on."""
    tag_round("train_report")
    return unused_report(rollouts, rewards, round=round, age=age)
