from dataclasses import replace

import numpy as np
import pytest

from rlft.errors import RlftError
from rlft.evaluation.evaluate import (
    advice,
    baseline_verdict,
    compared_by,
    curve_points,
    evaluate_rollouts,
    majority_solved,
    report_numbers,
)
from rlft.outcome import Failure
from rlft.types import EvaluationReport, Interval, Reward, Rewards, Rollout, Rollouts, Task, TaskSet


def rollout(task, sample, error=None):
    return Rollout(
        rollout_id=f"{task}-{sample}",
        task_id=task,
        sample=sample,
        round=0,
        messages=(),
        token_ids=np.zeros(3, np.int32),
        loss_mask=np.zeros(3, np.bool_),
        logprobs=np.zeros(3, np.float32),
        prompt_length=1,
        turns=1,
        tool_calls=0,
        tool_errors=0,
        state={},
        stop_reason="error" if error else "stop",
        truncated=False,
        error=error,
        seconds=0.0,
        policy="p",
        sampling="s",
        environment="e",
        seed=0,
    )


def reward(task, sample, total, answer="a", parts=None):
    return Reward(
        rollout_id=f"{task}-{sample}",
        task_id=task,
        total=total,
        parts={"exact": total} if parts is None else parts,
        solved=total == 1,
        answer=answer,
        error=None if total is not None else Failure("judge", "timeout"),
        seconds=0.0,
    )


def task_set(splits, groups=None):
    """{task: split}; each task is a group of its own unless `groups` says otherwise."""
    if isinstance(splits, TaskSet):
        return splits
    groups = groups or {}
    tasks = (Task(name, "e", (), None, {}, split, groups.get(name, name)) for name, split in splits.items())
    return TaskSet(tuple(tasks), "f")


def evaluate(rows, splits, failed=()):
    """rows: (task, total, answer[, parts]); samples are numbered in order."""
    count, rollouts, rewards = {}, [], []
    for task, *score in rows:
        sample = count[task] = count.get(task, -1) + 1
        error = "engine: died" if f"{task}-{sample}" in failed else None
        rollouts.append(rollout(task, sample, error))
        rewards.append(reward(task, sample, *score))
    return evaluate_rollouts(Rollouts(tuple(rollouts)), Rewards(tuple(rewards), {}), task_set(splits))


def test_tasks_count_once_however_many_samples_they_have():
    # x is solved in 1 of 4, y in 2 of 2: the mean over tasks is (1/4 + 1) / 2 = 0.625, over samples it were 3/6.
    rows = [("x", 1, "a"), ("x", 0, "b"), ("x", 0.5, "b"), ("x", 0, "b"), ("y", 1, "a"), ("y", 1, "a")]
    report = evaluate(rows, {"x": "gate", "y": "gate"})["gate"]
    assert report.metrics["accuracy"].mean == 0.625
    assert report.metrics["avg_at_k"] == report.metrics["accuracy"]
    # Rewards: x (1 + 0.5) / 4 = 0.375, y 1.
    assert report.per_task["reward"] == {"x": 0.375, "y": 1.0}
    assert report.metrics["reward"].mean == 0.6875
    assert report.metrics["pass_at_k"].mean == 1.0
    # The majority of x says b (3 of 4), which is wrong; that of y is right.
    assert report.metrics["maj_at_k"].mean == 0.5
    # Only x has rewards that differ.
    assert report.frac_tasks_with_variance == 0.5
    assert (report.num_samples, report.policy, report.errored) == (4, "p", 0)
    assert report.metrics["accuracy"].count == 2


def test_the_answers_of_attempts_and_of_solved_ones_are_counted():
    rows = [("x", 1.0, "7"), ("x", 0.0, "8"), ("y", 1.0, "9"), ("y", None, "1"), ("z", 0.0, "8"), ("z", 0.0, "6")]
    report = evaluate(rows, {"x": "test", "y": "test", "z": "test"})["test"]
    assert (report.answers, report.solved_answers) == (4, 2)  # 6, 7, 8, 9; of these 7 and 9 were right
    assert report.right_answers is None  # the tasks have none


def test_parts_that_do_not_apply_are_left_out():
    rows = [
        ("x", 1, "a", {"exact": 1.0, "style": None}),
        ("x", 0, "a", {"exact": 0.0, "style": 0.5}),
        ("y", 1, "a", {"exact": 1.0, "style": None}),
    ]
    report = evaluate(rows, {"x": "test", "y": "test"})["test"]
    assert report.per_task["rewards/style"] == {"x": 0.5}
    assert report.metrics["rewards/style"] == Interval(0.5, 0.5, 0.5, 1, 1, 1.0)
    # exact: x 1/2, y 1.
    assert report.metrics["rewards/exact"].mean == 0.75


def test_errors_are_left_out_and_counted():
    # x keeps one of two samples, y loses both: an error is no zero.
    rows = [("x", 1, "a"), ("x", None, None), ("y", 0, "a"), ("y", None, None)]
    report = evaluate(rows, {"x": "gate", "y": "gate"}, failed={"y-0"})["gate"]
    assert report.per_task["accuracy"] == {"x": 1.0}
    assert report.metrics["accuracy"].count == 1
    assert report.errored == 3
    assert report.errors == {"x": 1, "y": 2}
    assert report.num_samples == 2


def test_intervals_are_over_groups():
    # Four tasks of two groups: the interval has one degree of freedom, and a share may be anything.
    tasks = task_set(dict.fromkeys("abcd", "gate"), {"a": "g", "b": "g", "c": "h", "d": "h"})
    report = evaluate([("a", 1), ("b", 1), ("c", 0), ("d", 0)], tasks)["gate"]
    assert report.metrics["accuracy"] == Interval(0.5, 0.0, 1.0, 4, 2, 2.0)
    assert report.groups == {"a": "g", "b": "g", "c": "h", "d": "h"}


def test_each_split_has_its_own_report():
    task = Task("x", "e", (), None, {}, "validation", "g")
    other = Task("y", "e", (), None, {}, "off_distribution", "h")
    reports = evaluate([("x", 1, "a"), ("y", 0, "a")], TaskSet((task, other), "f"))
    assert {split: r.metrics["accuracy"].mean for split, r in reports.items()} == {
        "validation": 1.0,
        "off_distribution": 0.0,
    }


def test_a_split_where_all_failed_still_has_a_report():
    report = evaluate([("x", None, None)], {"x": "gate"})["gate"]
    assert (report.errored, report.metrics) == (1, {})
    with pytest.raises(RlftError, match="all 1 rollouts of the baseline failed"):
        baseline_verdict(report, 0.97)


def test_wrong_pairs_and_unknown_tasks_raise():
    with pytest.raises(ValueError, match="task x has no split"):
        evaluate([("x", 1, "a")], {})
    rollouts = Rollouts((rollout("x", 0), rollout("x", 1)))
    rewards = Rewards((reward("x", 0, 1), reward("x", 2, 1)), {})
    with pytest.raises(ValueError, match="first difference at row 1"):
        evaluate_rollouts(rollouts, rewards, task_set({"x": "gate"}))


@pytest.mark.parametrize(
    ("samples", "solved"),
    [
        ([("b", 0), ("a", 1), ("a", 1)], True),  # two against one
        ([("b", 0), ("a", 1)], False),  # a tie goes to the answer seen first
        ([("a", 1), ("b", 0)], True),
        ([(None, 0), (None, 0), ("a", 1)], True),  # no answer never wins a vote
        ([(None, 1), (None, 1)], False),  # and is never right
        ([("a", 0), ("a", 1), ("b", 1)], False),  # same answer, other behaviour: the first counts
    ],
)
def test_majority(samples, solved):
    rewards = [reward("x", i, total, answer) for i, (answer, total) in enumerate(samples)]
    assert majority_solved(rewards) is solved


def report_of(accuracy, variance, passes=None):
    metrics = {
        "avg_at_k": Interval(accuracy, accuracy, accuracy, 10),
        "pass_at_k": Interval(passes if passes is not None else accuracy, 0, 1, 10),
    }
    return EvaluationReport("validation", "p", 8, metrics, {"accuracy": {"t": accuracy}}, 0, variance)


@pytest.mark.parametrize(
    ("accuracy", "variance", "verdict", "words"),
    [
        (0.0, 0.0, "too_hard", "0.0% of the samples are right"),
        (0.0, 0.1, "trainable", "10.0% of the groups"),  # nothing solved, but parts of the reward differ
        (0.5, 0.0, "trainable", "no group has anything to teach"),
        (0.969, 0.2, "trainable", "96.9%"),
        (0.97, 0.2, "already_solved", "97.0% of the samples are right"),
    ],
)
def test_verdict_and_advice(accuracy, variance, verdict, words):
    report = report_of(accuracy, variance)
    assert baseline_verdict(report, 0.97) == verdict
    assert words in advice(verdict, report)


def test_what_failed_is_neither_solved_nor_too_hard():
    # 30 tasks are solved, 30 failed: at least half is solved, and nobody knows of more.
    metrics = {"avg_at_k": Interval(1.0, 1.0, 1.0, 30), "pass_at_k": Interval(1.0, 1.0, 1.0, 30)}
    scores, errors = {f"t{n}": 1.0 for n in range(30)}, {f"f{n}": 8 for n in range(30)}
    half = EvaluationReport("validation", "p", 8, metrics, {"accuracy": scores}, 240, 0.0, errors=errors)
    assert baseline_verdict(half, 0.97) == "trainable"
    none = EvaluationReport("validation", "p", 8, metrics, {"accuracy": dict.fromkeys(scores, 0.0)}, 240, errors=errors)
    assert baseline_verdict(none, 0.97) == "trainable"


def test_numbers_have_bounds_and_a_curve_those_of_its_metric_alone():
    intervals = {"accuracy": Interval(0.5, 0.4, 0.6, 9), "reward": Interval(2.0, 1.0, 3.0, 9)}
    report = EvaluationReport("gate", "p", 1, intervals, {}, errored=2, frac_tasks_with_variance=0.25)
    counted = {"frac_tasks_with_variance": 0.25, "errored": 2.0, "answers": 0.0}
    accuracy = {"accuracy": 0.5, "accuracy_low": 0.4, "accuracy_high": 0.6}
    assert report_numbers(report) == {**accuracy, "reward": 2.0, "reward_low": 1.0, "reward_high": 3.0, **counted}
    drawn = {**accuracy, "reward": 2.0, **counted}
    assert curve_points(report, "accuracy") == {f"eval/gate/{name}": value for name, value in drawn.items()}


def test_a_report_keeps_the_ranges_of_what_was_scored():
    # Both tasks have 0.5: without a range that interval had width 0.
    rollouts, rewards = (rollout("x", 0, None), rollout("y", 0, None)), (reward("x", 0, 0.5), reward("y", 0, 0.5))
    ranges = {"reward": (-10.0, 1.0), "rewards/exact": (0.0, 0.4999999999), "rewards/other": (0.0, 1.0)}
    scored = Rewards(rewards, {}, ranges=ranges)
    found = evaluate_rollouts(Rollouts(rollouts), scored, task_set({"x": "gate", "y": "gate"}))["gate"]
    # what was never scored is left out, and what rounding puts beyond an end belongs to the range
    assert found.ranges == {"reward": (-10.0, 1.0), "rewards/exact": (0.0, 0.5)}
    assert found.metrics["reward"].low < 0 < found.metrics["reward"].high


def test_several_environments_have_means_of_their_own():
    tasks = task_set({"a/1": "test", "a/2": "test", "b/1": "test"})
    tasks = TaskSet(tuple(replace(task, environment=task.id[0]) for task in tasks.tasks), "f")
    rows = [rollout(task, 0) for task in ("a/1", "a/2", "b/1")]
    rewards = (
        reward("a/1", 0, 1.0, parts={"a/p": 1.0}),
        reward("a/2", 0, 0.0, parts={"a/p": 0.0}),
        reward("b/1", 0, 1.0, parts={"b/p": 1.0}),
    )
    ranges = {"reward": (0.0, 1.0)}
    found = evaluate_rollouts(Rollouts(tuple(rows)), Rewards(rewards, {}, ranges=ranges, members=("a", "b")), tasks)
    report = found["test"]
    assert report.environments == {"a/1": "a", "a/2": "a", "b/1": "b"}
    means = {name: (each.mean, each.count) for name, each in report.metrics.items() if name.startswith("environments/")}
    assert means == {
        "environments/a/accuracy": (0.5, 2),
        "environments/a/reward": (0.5, 2),
        "environments/b/accuracy": (1.0, 1),
        "environments/b/reward": (1.0, 1),
    }
    assert report.metrics["accuracy"].mean == pytest.approx(2 / 3)
    # Ends of an interval of a share, and of a reward whose range is known, lie within that range.
    assert all(0 <= report.metrics[name].low <= report.metrics[name].high <= 1 for name in means)
    assert set(report.per_task) == {"accuracy", "reward", "rewards/a/p", "rewards/b/p"}  # nothing twice
    single = evaluate_rollouts(Rollouts(tuple(rows)), Rewards(rewards, {}), tasks)["test"]
    assert single.environments == {}
    assert not any(name.startswith("environments/") for name in single.metrics)


@pytest.mark.parametrize(
    ("solved", "paid", "metric"),
    [
        ((1, 0, 1, 0), (1.0, 0.0, 1.0, 0.0), "accuracy"),
        ((1, 0, 1, 0), (1.1, 0.1, 1.1, 0.0), "accuracy"),  # a form that pays a tenth: accuracy explains 0.998
        ((1, 0, 1, 0), (1.0, 0.8, 1.0, 0.2), "reward"),  # by its means of 1 and 0.5 it explains 0.25 of 0.43
        ((0, 0, 0, 0), (0.1, 0.4, 0.2, 0.0), "reward"),  # nothing is solved
        ((0, 0, 0, 0), (0.5, 0.5, 0.5, 0.5), "accuracy"),  # nothing differs
    ],
)
def test_models_are_compared_by_the_reward_where_it_is_graded(solved, paid, metric):
    scores = {name: dict(enumerate(found)) for name, found in (("accuracy", solved), ("reward", paid))}
    baseline = EvaluationReport("validation", "p", 8, {}, scores)
    assert compared_by("auto", baseline) == metric
    assert compared_by("accuracy", baseline) == "accuracy"  # what the config says holds
