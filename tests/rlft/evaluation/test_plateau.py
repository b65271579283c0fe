"""When validation no longer rises: a paired test over halves, with groups of tasks as its units."""

import numpy as np
import pytest
from scipy import stats

from rlft.evaluation.stopping import plateau
from rlft.types import EvaluationReport


def report(scores, **more) -> EvaluationReport:
    per_task = {"accuracy": {f"t{number:03d}": float(score) for number, score in enumerate(scores)}}
    return EvaluationReport("validation", "p", 1, {}, per_task, **more)


def test_the_bound_is_that_of_a_t_test_over_tasks():
    # Six of twelve tasks are solved from now on: the differences are 6 ones and 6 zeros, t = 0.5 / (0.522 / sqrt(12)).
    rising = [report([0] * 12), report([1] * 6 + [0] * 6)]
    assert stats.ttest_1samp([1] * 6 + [0] * 6, 0, alternative="greater").pvalue < 0.1
    assert plateau(rising, "accuracy") == ""
    # One of twelve: p is 0.17, above 0.1.
    assert 0.1 < stats.ttest_1samp([1] + [0] * 11, 0, alternative="greater").pvalue < 0.2
    assert plateau([report([0] * 12), report([1] + [0] * 11)], "accuracy") == (
        "from the 1 validations before them to the last 1, accuracy has changed by +0.083 in the mean of 12 tasks, no "
        "more than chance brings about"
    )


def test_copies_of_a_task_are_one_group_and_bring_no_evidence_of_their_own():
    groups = {f"t{number:03d}": str(number // 4) for number in range(12)}
    before, after = ([report(scores, groups=groups)] for scores in ([0] * 12, [1] * 4 + [0] * 8))
    assert plateau([*before, *after], "accuracy")  # one of three groups; of twelve tasks, four would do
    assert not plateau([report([0] * 12), report([1] * 4 + [0] * 8)], "accuracy")


def test_a_slow_rise_adds_up_and_a_lucky_validation_does_not():
    slow = [report([1] * solved + [0] * (40 - solved)) for solved in (10, 11, 12, 13, 14, 15)]
    assert not plateau(slow, "accuracy")
    lucky = [report([1] * 10 + [0] * 30)] * 3 + [report([1] * 11 + [0] * 29)] + [report([1] * 10 + [0] * 30)] * 2
    assert plateau(lucky, "accuracy")


def test_attempts_without_a_score_are_left_out():
    # Five of ten in all; in the last validation the seventh to tenth task, none of them solved, have no score.
    before, after = report([1] * 5 + [0] * 5), report([1] * 5 + [0], errors=dict.fromkeys(("t006", "t007"), 1))
    assert "+0.000 in the mean of 6 tasks" in plateau([before, after], "accuracy")
    # With another validation in that half, which scored them, they count: all ten.
    assert "+0.000 in the mean of 10 tasks" in plateau([before, before, before, after], "accuracy")


def test_an_outage_in_one_validation_hides_no_rise():
    # Two points a validation. If the errors of the ninth counted as zeros, the later half would be the lower one.
    rising = [report([1] * solved + [0] * (100 - solved)) for solved in range(40, 60, 2)]
    outage = report([1] * 20, errors={f"t{number:03d}": 1 for number in range(20, 100)})
    assert plateau([*rising[:8], outage, rising[9]], "accuracy") == ""
    flat = [report([1] * 40 + [0] * 60)] * 10
    assert "mean of 100 tasks" in plateau([*flat[:8], report([1] * 20), flat[9]], "accuracy")


@pytest.mark.parametrize(
    "reports",
    [
        [EvaluationReport("validation", "p", 1, {}, {})] * 2,
        [report([1.0]), EvaluationReport("validation", "p", 1, {}, {})],
    ],
)
def test_what_cannot_be_compared_shows_no_plateau(reports):
    assert plateau(reports, "accuracy") == ""


def test_noise_alone_is_taken_for_a_rise_at_most_as_often_as_the_level_says():
    # 400 series of ten validations of 60 tasks at 40 %: 10 % of them, give or take 3 * sqrt(0.1 * 0.9 / 400) = 4.5 %.
    random = np.random.default_rng(0)
    rises = [not plateau([report(random.random(60) < 0.4) for _ in range(10)], "accuracy") for _ in range(400)]
    assert np.mean(rises) == pytest.approx(0.1, abs=0.045)


@pytest.mark.parametrize(
    "sizes", [[100] + [1] * 100, [60] + [1] * 140, [60, 60] + [1] * 80, [64, 32, 16, 8, 4, 2, 1, 1]]
)
def test_large_groups_do_not_make_chance_a_rise(sizes):
    # 600 times differences that groups share for the most part. With G - 1 degrees of freedom and residuals as they
    # are, 20 to 40 % of them were rises; 10 % are allowed, give or take 3 * sqrt(0.1 * 0.9 / 600) = 3.7 %.
    random, names = np.random.default_rng(0), np.repeat([f"g{number}" for number in range(len(sizes))], sizes)
    groups = {f"t{number:03d}": str(name) for number, name in enumerate(names)}
    flat = report([0.0] * len(names), groups=groups)
    shared = [
        np.repeat(random.normal(size=len(sizes)), sizes) + 0.3 * random.normal(size=len(names)) for _ in range(600)
    ]
    rises = [not plateau([flat, report(each, groups=groups)], "accuracy") for each in shared]
    assert np.mean(rises) <= 0.137


def test_a_group_that_outweighs_all_others_leaves_only_the_mean():
    # 30 tasks of one group and 2 others: 32^2 / (900 + 2) = 1.1 groups.
    groups = {f"t{number:03d}": "a" if number < 30 else str(number) for number in range(32)}
    assert plateau([report([0] * 32), report([1] + [0] * 31, groups=groups)], "accuracy") == ""
