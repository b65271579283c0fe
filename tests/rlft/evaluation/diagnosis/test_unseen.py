import numpy as np
import pytest

from rlft.evaluation.diagnosis.causes import constant_answer, fallen_back, worse_than_start
from rlft.evaluation.diagnosis.monitors import diagnose
from rlft.evaluation.statistics import mean_interval
from rlft.types import EvaluationReport
from tests.rlft.evaluation.diagnosis.test_diagnose import history, report, validated


def said(answers: int, right: int | None, solved: int = 20, **more):
    """A validation of 40 tasks with so many different answers given, and needed."""
    return validated(solved, answers=answers, right_answers=right, frequent={"no": 40}, **more)


def saying(*shares: float):
    return [report(number, **{"completions/same_answer_ratio": each}) for number, each in enumerate(shares)]


def test_one_answer_to_all_tasks_is_named_also_where_it_has_risen():
    rounds, validations = saying(0.2, 0.6, 0.99), [said(3, 2, 0), said(1, 2, 20)]
    found = diagnose(history(*rounds, validations=validations))
    assert [each.cause for each in found] == ["one constant answer"]
    assert "99% of the attempts of the last third" in found[0].what
    assert "says 'no' (40), which solves 50.0%" in found[0].what


@pytest.mark.parametrize(
    ("last", "start", "share"),
    [
        (said(1, 1), said(3, 1), 0.99),  # one answer is right
        (said(2, 2), said(3, 2), 0.99),  # two are given
        (said(1, 2), said(3, 2), 0.85),  # of 40 groups; greedily constant, and still trying
        (said(1, None), said(3, None), 0.99),  # nobody knows how many are right
        (said(1, None, solved=0, solved_answers=1), said(9, None), 0.99),  # the one that is said solves some
    ],
)
def test_one_answer_is_not_blamed_where_it_is_right_or_passes(last, start, share):
    assert constant_answer(history(*saying(0.2, 0.6, share), validations=[start, last])) is None


def test_tasks_without_answers_need_those_that_solved_some_or_that_were_given():
    rounds = saying(0.2, 0.6, 0.99)
    assert constant_answer(history(*rounds, validations=[said(9, None, solved_answers=4), said(1, None)]))
    assert constant_answer(history(*rounds, validations=[said(9, None), said(1, None, 0)]))


def test_a_policy_that_was_better_before():
    found = diagnose(history(*saying(0.1, 0.1, 0.1), validations=[5, 30, 8]))
    assert [each.cause for each in found] == ["better before than at the end"]
    assert "accuracy rose from 0.125 to 0.750 in 1 round, and fell to 0.200 by the end (+0.550 lost" in found[0].what
    assert fallen_back(history(*saying(0.1), validations=[5, 30, 28])) is None  # chance
    assert fallen_back(history(*saying(0.1), validations=[5, 30])) is None


def test_the_luckiest_of_many_validations_is_no_fall():
    random = np.random.default_rng(0)

    def look(share: float) -> EvaluationReport:
        scores = {f"t{i}": float(each < share) for i, each in enumerate(random.random(40))}
        return EvaluationReport("validation", "p", 1, {"accuracy": mean_interval(scores)}, {"accuracy": scores})

    accused = 0
    for _ in range(60):  # 0.1 before, then 0.4 in ten validations
        looks = [look(0.1), *(look(0.4) for _ in range(10))]
        accused += fallen_back(history(*saying(0.1), validations=looks)) is not None
    assert accused <= 3  # 0.6 is expected at most; three standard deviations are 2.3


def test_a_policy_that_training_has_made_worse():
    found = diagnose(history(*saying(0.1, 0.1, 0.1), validations=[30, 8, 12]))
    assert [each.cause for each in found] == ["worse than at the start"]
    # 22 of 40 tasks lost, 18 of them still at the end; the bound is that of the paired interval at 98 %, over two looks
    assert "accuracy fell from 0.750 to 0.200 in 1 round (by 0.162 at least)" in found[0].what
    assert "and is 0.300 at the end" in found[0].what
    assert "training.warmup_updates: 10" in found[0].remedy


def test_train_tasks_that_teach_something_else_than_validation_asks():
    rounds = [report(number, accuracy=number / 10) for number in range(9)]  # from 10 % to 70 % between outer thirds
    taught = history(*rounds, validations=[30, 8, 12])
    found = worse_than_start(taught)
    assert found is not None
    assert "rose from 10.0% to 70.0% in training" in found.what
    assert found.what.endswith("so that what is taught there is not what validation asks.")
    assert found.remedy.startswith("Compare a few train tasks with validation tasks by eye")


@pytest.mark.parametrize("solved", [[30, 28], [30, 8, 20], [30, 8, 30], [30, 40], [30], []])
def test_what_is_within_chance_or_was_regained_is_no_loss(solved):
    assert worse_than_start(history(*saying(0.1), validations=solved)) is None


def test_the_unluckiest_of_many_validations_is_no_loss():
    random = np.random.default_rng(1)

    def look() -> EvaluationReport:
        scores = {f"t{i}": float(each < 0.4) for i, each in enumerate(random.random(40))}
        return EvaluationReport("validation", "p", 1, {"accuracy": mean_interval(scores)}, {"accuracy": scores})

    accused = sum(
        worse_than_start(history(*saying(0.1), validations=[look() for _ in range(6)])) is not None for _ in range(100)
    )
    assert accused <= 4  # 1 is expected at most; three standard deviations are 3
