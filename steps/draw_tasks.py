"""The step `draw_tasks` draws the train tasks of a round, and those that may replace them."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import tag_round
from rlft.config import TrainingConfig
from rlft.curriculum.draw import Draw, draw_round
from rlft.curriculum.rates import PassRates
from rlft.types import TaskSet


@step(cache_policy=cache_policies.DRAW, output_materializers=ReportMaterializer)
def draw_tasks(
    tasks: TaskSet,
    training: TrainingConfig,
    round: int,
    seed: int,
    rates: PassRates | None = None,
) -> Annotated[Draw, "draw"]:
    """Draw by the pass rates that the run has so far; `None` for a uniform draw, or before there are some."""
    tag_round("draw")
    return draw_round(tasks, training, round=round, seed=seed, rates=rates)
