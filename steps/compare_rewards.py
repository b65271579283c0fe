"""The step `compare_rewards` compares two scorings of the same attempts."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from rlft.rewards.rescored import RescoreReport
from rlft.rewards.rescored import compare_rewards as compare
from rlft.types import Rewards


@step(cache_policy=cache_policies.RESCORING, output_materializers=ReportMaterializer)
def compare_rewards(old: Rewards, new: Rewards) -> Annotated[RescoreReport, "rescore_report"]:
    """Say how the order of attempts within groups, and the parts, differ from one reward to the other."""
    return compare(old, new)
