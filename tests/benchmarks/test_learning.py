"""The intervals of the learning benchmark by hand, and that its arms have the same budget."""

import numpy as np
import pytest

from benchmarks import learning
from benchmarks.learning_intervals import draw, interval, summarize
from benchmarks.learning_run import ARMS, arm_config

SUMS = learning.ROOT / "configs" / "sums.yaml"


def test_interval_over_seeds():
    # One task, three seeds, one of them right. Drawn again, the number of right ones is binomial(3, 1/3):
    # none in 8/27 = 30 % of the draws and all in 1/27 = 3.7 %, both more than 2.5 %  ->  0 to 1.
    # The tasks alone say nothing: there is one.
    found = interval(np.array([[0.0], [0.0], [1.0]]), draw(3, 1))
    assert found["mean"] == pytest.approx(1 / 3)
    assert (found["low"], found["high"]) == (0.0, 1.0)
    assert found["low_tasks"] == found["high_tasks"] == pytest.approx(1 / 3)
    assert found["seeds"] == [0.0, 0.0, 1.0]


def test_interval_over_seeds_and_tasks():
    # [[1, 0], [0, 0]]: the share of ones is (k / 2)(m / 2) where k and m are binomial(2, 1/2):
    # all ones in 1/16 = 6.3 % of the draws, none in 1 - (3/4)^2 = 44 %, 1/4 on average.
    draws = draw(2, 2, resamples=40_000)
    found = interval(np.array([[1.0, 0.0], [0.0, 0.0]]), draws)
    assert (found["mean"], found["low"], found["high"]) == (0.25, 0.0, 1.0)
    ones = draws.seeds[:, 0] * draws.tasks[:, 0] / 4
    assert (ones == 1).mean() == pytest.approx(1 / 16, abs=0.005)
    assert (ones == 0).mean() == pytest.approx(7 / 16, abs=0.01)


def test_interval_of_many_tasks_and_one_seed():
    # 100 of 400 right: standard error sqrt(0.25 * 0.75 / 400) = 0.02165, times 1.96 = 0.0424
    found = interval(np.array([[1.0] * 100 + [0.0] * 300]), draw(1, 400, resamples=4000))
    for low, high in (("low", "high"), ("low_tasks", "high_tasks")):
        assert found[low] == pytest.approx(0.25 - 0.0424, abs=0.005)
        assert found[high] == pytest.approx(0.25 + 0.0424, abs=0.005)


def make_run(arm, seed, before, after, tasks="abcd"):
    return {"arm": arm, "seed": seed, "seconds": 4.0, "tasks": list(tasks), "solved": {"0": before, "2": after}}


def make_runs():
    """Two seeds and four tasks."""
    after = {"dapo": ("1110", "1010"), "trl": ("1010", "1000"), "random": ("0100", "1000")}
    return {arm: [make_run(arm, 0, "0100", ends[0]), make_run(arm, 1, "1000", ends[1])] for arm, ends in after.items()}


def test_summary_of_known_answers():
    summary = summarize(make_runs())
    dapo = summary["arms"]["dapo"]
    assert dapo["before"]["mean"] == 2 / 8
    assert dapo["after"]["mean"] == 5 / 8
    assert dapo["gain"]["seeds"] == [2 / 4, 1 / 4]
    assert dapo["seconds_per_round"] == 2.0
    assert list(dapo["curve"]) == [0, 2]
    # dapo solves one more than TRL with either seed: task b with the first, c with the second.
    assert summary["rlft_minus_trl"]["mean"] == 2 / 8
    assert summary["rlft_minus_trl"]["seeds"] == [1 / 4, 1 / 4]
    # The same answers before and after have no interval.
    assert [summary["random_gain"][side] for side in ("mean", "low", "high")] == [0, 0, 0]
    assert "group_2_minus_16" not in summary


def test_runs_that_cannot_be_paired():
    runs = make_runs()
    runs["trl"][1] = make_run("trl", 1, "1000", "1000", tasks="abce")
    with pytest.raises(ValueError, match="differ in `tasks`"):
        summarize(runs)
    runs["trl"][1] = make_run("trl", 1, "0000", "1000")
    with pytest.raises(ValueError, match="began with different policies"):
        summarize(runs)


def test_arms_have_the_same_budget():
    configs = {arm: arm_config(SUMS, [], arm, seed=3).training for arm in ARMS}
    assert {own.tasks_per_round * own.num_generations for own in configs.values()} == {1024}
    assert (configs["group_2"].tasks_per_round, configs["group_16"].tasks_per_round) == (512, 64)
    assert (configs["dr_grpo"].loss_type, configs["dr_grpo"].scale_rewards) == ("dr_grpo", "none")
    assert configs["dapo"] == configs["trl"] == configs["random"] == configs["lag_1"].without_lag()
    assert (configs["dapo"].lag, configs["lag_1"].lag) == (0, 1)
