"""The step `decide_promotion` decides whether the trained policy becomes the champion."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from rlft.config import EvaluationConfig, PromotionConfig
from rlft.controls.constant import ConstantAnswer
from rlft.gates.looks import Look
from rlft.promotion import Decision, Known, Rules
from rlft.promotion import decide_promotion as decide
from rlft.slices import slices_of
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
    arms = {"trained": trained, "warm_start": warm_start, "base": base, "champion": champion}
    gate = slices_of(tasks.split("gate"), promotion.slices)
    return decide(
        trained.splits["gate"],
        warm_start.splits["gate"] if warm_start else None,
        base.splits["gate"],
        champion.splits["gate"] if champion else None,
        metric=evaluation.metric,
        min_improvement=promotion.min_improvement,
        constant=constant.splits.get("gate") if constant else None,
        look=Look(known.look, known.spent),
        looks=promotion.looks,
        champion_knows=known.champion_knows,
        rules=Rules(
            suites={name: rule.margin for name, rule in promotion.suites.items()},
            slices={f"{column}={value}": ids for column, values in gate.items() for value, ids in values.items()},
            slice_margin=promotion.slice_margin,
            max_length_ratio=promotion.max_length_ratio,
            audit_required=promotion.audit == "required",
        ),
        suites={
            suite: {name: arm.splits[suite] for name, arm in arms.items() if arm is not None and suite in arm.splits}
            for suite in promotion.suites
        },
        audit=known.audit,
        monitor=known.monitor,
    )
