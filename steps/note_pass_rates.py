"""The step `note_pass_rates` brings the pass rates of tasks up to date after a round."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import tag_round
from rlft.config.training import PassRatesConfig
from rlft.curriculum.rates import PassRates, note_round
from rlft.types import Rewards


@step(cache_policy=cache_policies.DRAW, output_materializers=ReportMaterializer)
def note_pass_rates(
    rewards: Rewards, settings: PassRatesConfig, round: int, rates: PassRates | None = None
) -> Annotated[PassRates, "pass_rates"]:
    """Add the attempts of a round, and retire the tasks that are taken for solved."""
    tag_round("pass_rates")
    known = rates or PassRates()
    return note_round(known, rewards, round=round, half_life=settings.half_life, retire_at=settings.retire_at)
