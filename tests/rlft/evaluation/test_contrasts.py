"""Runs side by side: settings that differ, tasks that are shared, models by task, settings by seed."""

import numpy as np
import pytest
from scipy import stats

from rlft.evaluation.comparison import Comparison
from rlft.evaluation.contrasts import (
    Asked,
    _welch,
    average,
    compare_pairs,
    differing,
    gain_over_seeds,
    match,
    renamed,
    same_setting,
    solved_by_one,
)
from rlft.evaluation.contrasts import compare_settings as settings_by_seed
from rlft.types import EvaluationReport, Interval


def report(scores, **more) -> EvaluationReport:
    per_task = {"accuracy": {f"t{number:03d}": float(score) for number, score in enumerate(scores)}}
    return EvaluationReport("test", "p", 1, {}, per_task, **more)


def compare_settings(groups, reports, metric):
    """Settings whose runs all have seeds of their own."""
    return settings_by_seed(groups, reports, metric, {run: number for number, run in enumerate(reports)})


def share(solved, tasks=100):
    return report([1] * solved + [0] * (tasks - solved))


def test_settings_that_differ_are_named_with_both_values():
    one = {"seed": 0, "training": {"rounds": 5, "lr": 1e-3}, "policy": {"lora": {"rank": 8}}, "controls": []}
    two = {"seed": 1, "training": {"rounds": 5, "lr": 1e-4}, "policy": {"lora": None}, "controls": []}
    assert differing({"a": one, "b": two}) == {
        "seed": {"a": 0, "b": 1},
        "training.lr": {"a": 1e-3, "b": 1e-4},
        "policy.lora.rank": {"a": 8, "b": "(not set)"},
        "policy.lora": {"a": "(not set)", "b": None},
    }
    assert differing({"a": one, "b": one}) == {}


def test_runs_that_differ_in_their_seed_alone_are_one_setting():
    def config(seed, lr, **more):
        return {"name": f"n{seed}", "seed": seed, "training": {"lr": lr}, "tracking": {"trace_every": seed}, **more}

    found = same_setting(
        {"a": config(0, 1), "b": config(0, 2), "c": config(1, 1), "d": config(1, 2, tasks={"seed": 1})}
    )
    assert found == [["a", "c"], ["b"], ["d"]]


def test_holm_lets_the_surest_difference_stand_and_not_those_that_chance_would_show():
    # 40 of 100 solved, 43 of which 40 are the same, and 80: only what has 80 in it stands.
    pairs = {
        (pair.first, pair.second): pair
        for pair in compare_pairs({"a": share(40), "b": share(43), "c": share(80)}, "accuracy")
    }
    assert {names for names, pair in pairs.items() if pair.stands} == {("a", "c"), ("b", "c")}
    assert pairs["a", "b"].confidence == 0.95  # the only one that is left
    assert pairs["a", "c"].confidence == pytest.approx(1 - 0.05 / 3)
    assert pairs["a", "c"].found.difference.mean == pytest.approx(0.4)
    assert pairs["a", "b"].obstacle is None


def test_few_tasks_are_no_evidence_and_no_shared_task_is_told():
    (pair,) = compare_pairs({"a": share(0, 8), "b": share(8, 8)}, "accuracy")
    assert not pair.stands
    assert "8 groups of tasks" in pair.obstacle
    other = EvaluationReport("test", "q", 1, {}, {"accuracy": {"x": 1.0}})
    (pair,) = compare_pairs({"a": share(1), "b": other}, "accuracy")
    assert (pair.found, pair.obstacle) == (None, "no task was scored for both")


def test_settings_are_compared_over_seeds_and_over_tasks():
    runs = {"a0": share(40), "a1": share(41), "a2": share(39), "b0": share(70), "b1": share(72), "b2": share(68)}
    (pair,) = compare_settings([["a0", "a1", "a2"], ["b0", "b1", "b2"]], runs, "accuracy")
    assert pair.stands
    expected = stats.ttest_ind([0.70, 0.72, 0.68], [0.40, 0.41, 0.39], equal_var=False).confidence_interval(0.95)
    assert pair.over_seeds == pytest.approx((expected.low, expected.high))
    assert pair.over_tasks.difference.mean == pytest.approx(0.30)
    # An end is as far from the difference as the root of the sum of the squares of both distances.
    below = ((0.30 - expected.low) ** 2 + (0.30 - pair.over_tasks.low_with_errors) ** 2) ** 0.5
    above = ((expected.high - 0.30) ** 2 + (pair.over_tasks.high_with_errors - 0.30) ** 2) ** 0.5
    assert (pair.difference, pair.low, pair.high) == pytest.approx((0.30, 0.30 - below, 0.30 + above))


def test_a_spread_between_seeds_hides_what_tasks_would_show():
    runs = {"a0": share(30), "a1": share(50), "b0": share(45), "b1": share(75)}
    (pair,) = compare_settings([["a0", "a1"], ["b0", "b1"]], runs, "accuracy")
    assert not pair.stands
    assert pair.over_tasks.difference.low > 0  # the four models alone would say so


def test_one_run_each_tells_nothing_of_a_setting():
    (pair,) = compare_settings([["a"], ["b"]], {"a": share(10), "b": share(90)}, "accuracy")
    assert not pair.stands
    assert (pair.low, pair.high, pair.over_seeds) == (None, None, None)


@pytest.mark.slow
def test_equal_settings_are_told_apart_at_most_as_often_as_the_level_says():
    random = np.random.default_rng(1)

    def run():
        level = np.clip(random.normal(0.5, 0.08), 0, 1)
        return report(random.random(60) < level)

    found = [
        compare_settings([["a", "b", "c"], ["d", "e", "f"]], {name: run() for name in "abcdef"}, "accuracy")[0].stands
        for _ in range(300)
    ]
    assert np.mean(found) <= 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5


def test_what_differs_by_chance_over_seeds_and_over_tasks_at_once_does_not_stand():
    # Each of two settings solves tasks in 0.8 of attempts or in 0.2, each by a coin of its own, and its seeds spread by
    # 0.1: of 20 seeds and 200 tasks their difference spreads by 0.1 * sqrt(2 / 20) = 0.032 over seeds and by
    # 0.6 * sqrt(0.5 / 200) = 0.030 over tasks.
    random, stands, alone = np.random.default_rng(3), [], []
    for _ in range(100):
        runs = {}
        for setting in "ab":
            rates = np.where(random.random(200) < 0.5, 0.8, 0.2)
            runs |= {f"{setting}{n}": report(np.clip(rates + random.normal(0, 0.1), 0, 1)) for n in range(20)}
        (pair,) = compare_settings([list(runs)[:20], list(runs)[20:]], runs, "accuracy")
        over_seeds, over_tasks = pair.over_seeds, pair.over_tasks
        stands.append(pair.stands)
        alone.append(over_seeds[0] > 0 < over_tasks.low_with_errors or over_seeds[1] < 0 > over_tasks.high_with_errors)
    # 100 draws at 0.05 have a standard error of 0.022: at most 0.05 + 2 * 0.022. That each interval excludes 0 by
    # itself, which was asked for once, is so more often.
    assert np.mean(stands) <= 0.094 < np.mean(alone)


def test_few_seeds_beside_many_are_no_evidence_or_have_the_quantile_of_few():
    # Nothing differs, and all seeds spread alike. By Welch's own degrees of freedom 3 beside 10 differ in 0.066 of
    # draws, and 2 beside 5 in 0.064. 8000 draws at 0.05 have a standard error of 0.0024.
    random = np.random.default_rng(0)
    found = [_welch(random.normal(0, 1, 3).tolist(), random.normal(0, 1, 10).tolist(), 0.05) for _ in range(8000)]
    assert np.mean([low > 0 or high < 0 for low, high in found]) <= 0.05 + 3 * 0.0024
    assert (_welch([1, 2], [5, 6, 7], 0.05), _welch([1], [5, 6, 7], 0.05)) == (None, None)
    alike = stats.ttest_ind([5, 6, 7], [1, 2, 4], equal_var=False).confidence_interval(0.99)
    assert _welch([5, 6, 7], [1, 2, 4], 0.01) == pytest.approx(
        (alike.low, alike.high)
    )  # of equal numbers it is Welch's
    runs = {name: share(count) for name, count in zip("abcde", (10, 12, 80, 82, 84), strict=True)}
    (pair,) = compare_settings([["a", "b"], ["c", "d", "e"]], runs, "accuracy")
    assert (pair.low, pair.over_seeds, pair.stands) == (None, None, False)


def test_a_rerun_of_a_seed_is_no_other_seed():
    # Two settings without a difference, whose seeds spread by 0.1. A rerun answers 5 % of the 200 tasks anew. Each
    # setting with one seed, three times: of one seed nobody can say. Taken for three seeds, half would be "better".
    random = np.random.default_rng(0)

    def reruns(count):
        rate, drawn = random.normal(0.5, 0.1), random.random(200)
        for _ in range(count):
            again = np.where(random.random(200) < 0.05, random.random(200), drawn)
            yield report(again < rate)

    for _ in range(10):
        runs = dict(zip("abcdef", (*reruns(3), *reruns(3)), strict=True))
        (pair,) = settings_by_seed(["abc", "def"], runs, "accuracy", dict.fromkeys("abc", 0) | dict.fromkeys("def", 1))
        assert (pair.low, pair.stands) == (None, False)
    # Seeds 0 and 1, of which the first was run twice: means 0.40 (of 0.39 and 0.41) and 0.50, so 0.45.
    runs = {"a": share(39), "a2": share(41), "b": share(50), "c": share(70), "d": share(72)}
    (pair,) = settings_by_seed(
        [["a", "a2", "b"], ["c", "d"]], runs, "accuracy", {"a": 0, "a2": 0, "b": 1, "c": 0, "d": 1}
    )
    assert pair.difference == pytest.approx(0.71 - 0.45)
    assert pair.over_tasks.difference.mean == pytest.approx(0.71 - 0.45)


def test_errors_of_several_runs_add_up_and_tasks_keep_their_mean():
    one = report([1, 0], errors={"t002": 1})
    two = EvaluationReport("test", "q", 1, {}, {"accuracy": {"t000": 0.0, "t002": 1.0}}, errors={"t001": 1})
    found = average([one, two], "accuracy")
    assert found.per_task["accuracy"] == {"t000": 0.5, "t001": 0.0, "t002": 1.0}
    assert (found.errors, found.num_samples) == ({"t002": 1, "t001": 1}, 2)


def test_tasks_that_one_solves_come_by_how_much_more_often():
    ours, theirs = report([1, 0.75, 0.5, 0]), report([0.5, 0, 0.5, 1])
    assert solved_by_one(ours, theirs) == ["t001", "t000"]
    assert solved_by_one(theirs, ours) == ["t003"]


OLD = {"a1": Asked("one", "1"), "a2": Asked("two", "2"), "a3": Asked("three", "3")}


def test_tasks_are_found_by_id_and_question_else_by_question_and_answer():
    new = {"b1": Asked("one", "1"), "a2": Asked("two", "22"), "b3": Asked("three", "33")}
    # b1 asks what a1 asks; a2 asks the same under the same id, whatever its answer; b3 has another answer than a3.
    found = match({"old": OLD, "new": new})
    assert found == {"old": {"a1": "a1", "a2": "a2"}, "new": {"a1": "b1", "a2": "a2"}}
    third = {"c2": Asked("two", "2")}
    assert match({"old": OLD, "new": new, "third": third})["third"] == {"a2": "c2"}


def test_an_id_that_asks_something_else_is_not_the_same_task():
    swapped = {"a1": OLD["a2"], "a2": OLD["a1"], "a3": Asked("four", "4")}
    assert match({"old": OLD, "new": swapped})["new"] == {"a1": "a2", "a2": "a1"}


def test_a_question_that_stands_twice_is_matched_by_id_alone():
    twice = {"b1": Asked("one", "1"), "c1": Asked("one", "1")}
    assert match({"old": OLD, "new": twice})["new"] == {}
    assert match({"new": twice, "old": OLD})["old"] == {}
    assert match({"old": twice, "new": {"b1": Asked("one", "1"), "d1": Asked("one", "1")}})["new"] == {
        "b1": "b1",
        "c1": "d1",
    }


def test_a_report_takes_the_ids_of_another_run():
    scores = {"b1": 1.0, "b2": 0.0, "b3": 0.5}
    report = EvaluationReport("test", "p", 1, {}, {"accuracy": scores}, groups={"b1": "g"}, errors={"b2": 1, "b3": 1})
    found = renamed(report, {"a1": "b1", "a2": "b2"})
    assert found.per_task == {"accuracy": {"a1": 1.0, "a2": 0.0}}
    assert (found.groups, found.errors) == ({"a1": "g"}, {"a2": 1})


def gained(mean, low, high):
    return Comparison(Interval(mean, low, high, 9, 9, 9.0), 0.4, 0.4 + mean, low, high, 0, (), declared=True)


def test_the_gain_over_seeds_has_the_chance_of_the_tasks_in_its_interval():
    # Gains of 0.1, 0.2 and 0.3: over seeds 0.2 +- 4.302653 (t of 2 degrees of freedom) * 0.1 / sqrt(3) = 0.2484138.
    # Over tasks 0.2 below and 0.15 above: root of 0.2484138^2 + 0.2^2 = 0.3189191 below, of + 0.15^2 = 0.2901886 above.
    runs = [gained(gain, gain - 0.2, gain + 0.15) for gain in (0.1, 0.2, 0.3)]
    found = gain_over_seeds(runs)
    assert (found.mean, found.low, found.high) == pytest.approx((0.2, 0.2 - 0.3189191, 0.2 + 0.2901886), abs=1e-6)


def test_one_seed_and_equal_gains_have_no_interval():
    for gains in ([0.25], [0.0, 0.0, 0.0]):
        found = gain_over_seeds([gained(gain, -1.0, 1.0) for gain in gains])
        assert (found.mean, found.low, found.high) == (gains[0], None, None)
