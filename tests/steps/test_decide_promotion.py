"""steps.promotion: the rules of the config are asked of the reports and of the gate's tasks."""

import dataclasses

from rlft.config import EvaluationConfig, PromotionConfig
from rlft.evaluation.promotion import Known
from rlft.types import Evaluation, EvaluationReport, TaskSet
from steps.promotion import decide_promotion
from tests.factories import make_task

NAMES = [f"t{n:03d}" for n in range(120)]
LANGUAGES = ["de"] * 60 + ["fr"] * 60
TASKS = TaskSet(
    tuple(
        dataclasses.replace(make_task(name), split="gate", info={"language": language})
        for name, language in zip(NAMES, LANGUAGES, strict=True)
    ),
    "f",
)


def evaluation(policy, gate, off):
    """Whose tasks on `gate` and `off_distribution` from these numbers on are right."""

    def report(split, first):
        scores = {name: float(number >= first) for number, name in enumerate(NAMES)}
        return EvaluationReport(split, policy, 1, {}, {"accuracy": scores})

    return Evaluation({"gate": report("gate", gate), "off_distribution": report("off_distribution", off)})


def decide(trained, base, **rules):
    promotion = PromotionConfig.model_validate({"looks": 1} | rules)
    settings = EvaluationConfig(metric="accuracy"), promotion, Known(audit=True)
    return decide_promotion.entrypoint(trained, base, TASKS, *settings)


BASE = evaluation("base", 80, 20)
RULES = {
    "suites": {"off_distribution": {"margin": 0.1}},
    "slices": ["language"],
    "audit": "required",
}


def test_all_rules_of_the_config_are_asked():
    found = decide(evaluation("trained", 5, 20), BASE, **RULES)
    assert found.rules == dict.fromkeys(("improvement", "suites", "slices", "audit"), "passes")
    assert found.promote
    assert any("language=de" in reason for reason in found.reasons)


def test_a_loss_elsewhere_blocks():
    found = decide(evaluation("trained", 5, 60), BASE, **RULES)
    assert (found.promote, found.rules["suites"], found.rules["improvement"]) == (False, "fails", "passes")
    assert decide(evaluation("trained", 5, 60), BASE).promote  # where nobody asks


def test_a_slice_that_is_lost_blocks():
    # All 40 tasks that base solves are `fr`: ours solves the other 80 and none of them, 20 of `fr` gained and 40 lost.
    scores = {name: float(number < 80) for number, name in enumerate(NAMES)}
    gate = dataclasses.replace(BASE.splits["gate"], policy="trained", per_task={"accuracy": scores})
    trained = dataclasses.replace(BASE, splits=BASE.splits | {"gate": gate})
    found = decide(trained, BASE, slices=["language"])
    assert (found.promote, found.rules["slices"]) == (False, "fails")
    assert any(reason.startswith("fails: in the slice language=fr") for reason in found.reasons)
