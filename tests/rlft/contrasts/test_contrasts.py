"""Runs side by side: settings that differ, models by task, settings by seed."""

import numpy as np
import pytest
from scipy import stats

from rlft.contrasts import compare_pairs, compare_settings, differing, same_setting, seeds_needed, solved_by_one
from rlft.contrasts.seeds import average
from rlft.types import EvaluationReport


def report(scores, **more) -> EvaluationReport:
    per_task = {"accuracy": {f"t{number:03d}": float(score) for number, score in enumerate(scores)}}
    return EvaluationReport("test", "p", 1, {}, per_task, **more)


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


@pytest.mark.parametrize(
    ("effect", "count"),
    [(2.0, 6), (1.0, 17), (0.8, 26), (0.5, 64)],  # Cohen 1988, table 2.4.1: two-sided 5 %, power 0.8
)
def test_how_many_seeds_would_tell(effect, count):
    assert seeds_needed(effect * 0.03, 0.03) == count


def test_seeds_for_no_difference_or_no_spread():
    assert seeds_needed(0.0, 0.1) is None
    assert seeds_needed(0.001, 0.1) is None  # more than a thousand
    assert seeds_needed(0.1, 0.0) == 2


def test_the_number_of_seeds_has_the_power_that_it_promises():
    count = seeds_needed(0.05, 0.04)
    random = np.random.default_rng(0)
    ours, theirs = random.normal(0.05, 0.04, (4000, count)), random.normal(0, 0.04, (4000, count))
    # 4000 draws at 0.8: a standard error of 0.6 %; one seed less has less power than promised.
    assert np.mean(stats.ttest_ind(ours, theirs, axis=1).pvalue < 0.05) > 0.78


def test_settings_are_compared_over_seeds_and_over_tasks():
    runs = {"a0": share(40), "a1": share(41), "a2": share(39), "b0": share(70), "b1": share(72), "b2": share(68)}
    (pair,) = compare_settings([["a0", "a1", "a2"], ["b0", "b1", "b2"]], runs, "accuracy")
    assert pair.stands
    expected = stats.ttest_ind([0.70, 0.72, 0.68], [0.40, 0.41, 0.39], equal_var=False).confidence_interval(0.95)
    assert (pair.difference, pair.low, pair.high) == pytest.approx((0.30, expected.low, expected.high))
    assert pair.over_tasks.difference.mean == pytest.approx(0.30)
    assert pair.seeds == {None: 2}


def test_a_spread_between_seeds_hides_what_tasks_would_show():
    runs = {"a0": share(30), "a1": share(50), "b0": share(45), "b1": share(75)}
    (pair,) = compare_settings([["a0", "a1"], ["b0", "b1"]], runs, "accuracy")
    assert not pair.stands
    assert pair.over_tasks.difference.low > 0  # the four models alone would say so
    # spreads 0.141 and 0.212, pooled sqrt((0.02 + 0.045) / 2) = 0.180; 0.2 / 0.18 = 1.11
    assert pair.seeds == {None: seeds_needed(0.2, (0.0325) ** 0.5)}


def test_one_run_each_tells_nothing_of_a_setting_and_says_how_many_would():
    (pair,) = compare_settings([["a"], ["b"]], {"a": share(10), "b": share(90)}, "accuracy")
    assert not pair.stands
    assert (pair.low, pair.high) == (None, None)
    assert pair.seeds == {spread: seeds_needed(0.8, spread) for spread in (0.02, 0.05, 0.1)}


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
