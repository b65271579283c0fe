"""The step `decide_promotion` decides whether the trained policy becomes the champion."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.runtime import cache_policies
from rlft.config import EvaluationConfig, PromotionConfig
from rlft.controls.constant import ConstantAnswer
from rlft.gates.looks import Look
from rlft.promotion import Decision
from rlft.promotion import decide_promotion as decide
from rlft.types import Evaluation


@step(cache_policy=cache_policies.EVALUATION, output_materializers=ReportMaterializer)
def decide_promotion(
    trained: Evaluation,
    base: Evaluation,
    evaluation: EvaluationConfig,
    promotion: PromotionConfig,
    warm_start: Evaluation | None = None,
    champion: Evaluation | None = None,
    constant: ConstantAnswer | None = None,
    look: int = 1,
    spent: float = 1.0,
    champion_knows: list[str] | None = None,
) -> Annotated[Decision, "promotion_decision"]:
    """Compare the trained policy with every other arm on the split `gate`; no other split has a say.

    `look` and `spent` are those of a `rlft.gates.looks.Look`; `champion_knows` are ids of tasks that the champion was
    trained on, `None` if these are not known.
    """
    return decide(
        trained.splits["gate"],
        warm_start.splits["gate"] if warm_start else None,
        base.splits["gate"],
        champion.splits["gate"] if champion else None,
        metric=evaluation.metric,
        min_improvement=promotion.min_improvement,
        constant=constant.splits.get("gate") if constant else None,
        look=Look(look, spent),
        looks=promotion.looks,
        champion_knows=champion_knows,
    )
