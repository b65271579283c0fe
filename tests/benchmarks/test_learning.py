"""The learning benchmark in miniature: statistics by hand, bookkeeping, and every kind of arm for two rounds."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from benchmarks import learning, learning_run
from benchmarks.learning_bench import make_bench, make_warm_start
from benchmarks.learning_intervals import draw, interval, summarize
from benchmarks.learning_plot import draw_picture
from benchmarks.learning_run import ARMS, arm_config, result_file, run_arm, write_result
from rlft.curriculum.epochs import tasks_of_round

SUMS = learning.ROOT / "configs" / "sums.yaml"
TINY = [
    "tasks.splits.train=40",
    "tasks.splits.validation=4",
    "tasks.splits.gate=4",
    "tasks.splits.test=10",
    "tasks.off_distribution_count=4",
    "policy.from_scratch.hidden_size=16",
    "policy.from_scratch.intermediate_size=16",
    "policy.from_scratch.num_hidden_layers=1",
    "policy.from_scratch.num_attention_heads=2",
    "warm_start.steps=5",
    "training.rounds=2",
    "training.tasks_per_round=8",
    "training.num_generations=4",
    "training.updates_per_round=2",
    "evaluation.validate_every=1",
]


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


def test_picture_and_table(tmp_path):
    summary = {"seeds": [0, 1], "rounds": 2, "tasks": 4, **summarize(make_runs())}
    assert [file.stat().st_size > 10_000 for file in draw_picture(summary, tmp_path)] == [True, True]
    assert learning.make_table(summary).row_count == 5
    assert json.loads(json.dumps(summary))["rlft_minus_trl"]["low"] <= 0.25


def test_finished_runs_are_not_repeated(tmp_path):
    launched = []

    def launch(arm, seed):
        launched.append((arm, seed))
        if arm != "warm_start":
            write_result(
                result_file(tmp_path, arm, seed), {"arm": arm, "seed": seed, "identity": identities[arm, seed]}
            )

    identities = {(arm, seed): "old" for arm in ("dapo", "trl") for seed in (0, 1)}
    learning.run_missing(tmp_path, identities, 1, launch)
    assert launched == [("warm_start", 0), ("warm_start", 1), ("trl", 0), ("trl", 1), ("dapo", 0), ("dapo", 1)]
    launched.clear()
    identities["dapo", 1] = "new"
    with pytest.raises(RuntimeError, match="dapo seed 1"):
        learning.read_runs(tmp_path, identities)
    learning.run_missing(tmp_path, identities, 1, launch)
    assert launched == [("warm_start", 1), ("dapo", 1)]
    assert [run["seed"] for run in learning.read_runs(tmp_path, identities)["trl"]] == [0, 1]


def test_arms_have_the_same_budget():
    configs = {arm: arm_config(SUMS, [], arm, seed=3).training for arm in ARMS}
    assert {own.tasks_per_round * own.num_generations for own in configs.values()} == {1024}
    assert (configs["group_2"].tasks_per_round, configs["group_16"].tasks_per_round) == (512, 64)
    assert (configs["dr_grpo"].loss_type, configs["dr_grpo"].scale_rewards) == ("dr_grpo", "none")
    assert configs["dapo"] == configs["trl"] == configs["random"] == configs["lag_1"].without_lag()
    assert (configs["dapo"].lag, configs["lag_1"].lag) == (0, 1)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A warm start."""
    torch.set_num_threads(1)
    return make_warm_start(make_bench(arm_config(SUMS, TINY, "dapo", 0)), tmp_path_factory.mktemp("learning"))


def check_arm(arm, start):
    """Runs the arm and looks at its result; gives its bench back."""
    bench = make_bench(arm_config(SUMS, TINY, arm, 0))
    result = json.loads(json.dumps(run_arm(bench, arm, start)))
    assert list(result["solved"]) == ["0", "1", "2"]
    assert [len(answers) for answers in result["solved"].values()] == [10, 10, 10]
    assert result["tasks"] == [task.id for task in bench.task_set.split("test")]
    assert len(result["train_reward"]) == 2
    assert result["seconds"] > 0
    return bench


@pytest.mark.slow
def test_a_round_that_is_given_up_ends_training_and_the_policy_before_it_is_examined(start, monkeypatch):
    real, examined = learning_run.train_sampled, []

    def spoil(policy, *arguments, **options):
        report = real(policy, *arguments, **options)
        for weight in policy.model.parameters():
            weight.data.zero_()
        return dataclasses.replace(report, stopped="KL 1 after update 1")

    monkeypatch.setattr(learning_run, "train_sampled", spoil)
    bench = make_bench(arm_config(SUMS, TINY, "dapo", 0))
    ask = bench.examine
    monkeypatch.setattr(
        bench,
        "examine",
        lambda policy, round: (
            examined.append(float(sum(weight.detach().abs().sum() for weight in policy.model.parameters()))),
            ask(policy, round),
        ),
    )
    result = run_arm(bench, "dapo", start)
    assert result["stopped"] == "round 0: KL 1 after update 1"
    assert result["train_reward"] == []
    assert list(result["solved"]) == ["0", "1", "2"]
    assert len(set(examined)) == 1


@pytest.mark.parametrize("arm", ["dapo", "random", "lag_1"])
def test_an_arm(arm, start):
    check_arm(arm, start)


def test_trl_takes_the_tasks_and_learning_rates_of_rlft(start, monkeypatch):
    from benchmarks import learning_trl

    scored, rates = [], []

    class Spy(learning_trl.EnvironmentReward):
        def __call__(self, completions, task_id, **columns):
            scored.append(task_id)
            return super().__call__(completions, task_id, **columns)

    class Watch(learning_trl.Examiner):
        def on_step_begin(self, args, state, control, optimizer, **_):
            rates.append(optimizer.param_groups[0]["lr"])

    monkeypatch.setattr(learning_trl, "EnvironmentReward", Spy)
    monkeypatch.setattr(learning_trl, "Examiner", Watch)
    bench = check_arm("trl", start)
    rounds = [tasks_of_round(bench.task_set, round=number, count=8, seed=0) for number in range(2)]
    assert scored == [[task.id for task in tasks for _ in range(4)] for tasks in rounds]
    assert rates == pytest.approx([2e-5, 4e-5, 6e-5, 8e-5])  # 2e-4 after 10 updates of warm-up
