"""rlft.evaluation.comparison: differences of two reports, and what errors could hide."""

from dataclasses import replace

import pytest

from rlft.evaluation.comparison import compare, completed, guarded_mean, is_better, range_of
from rlft.types import EvaluationReport, Interval


def report(scores, errors=None, *, metric="accuracy", samples=1, groups=None):
    """A report of {task: score}, and of {task: rollouts without a score}."""
    errors = errors or {}
    return EvaluationReport(
        "gate", "p", samples, {}, {metric: scores}, sum(errors.values()), groups=groups or {}, errors=errors
    )


HARD, EASY = [f"h{n}" for n in range(10)], [f"e{n}" for n in range(90)]


def solved(tasks, value):
    return dict.fromkeys(tasks, float(value))


def test_means_are_over_the_tasks_that_both_have_a_score_for():
    ours, theirs = report({"a": 1.0, "b": 0.0}), report({"b": 0.0, "c": 1.0})
    found = compare(ours, theirs, "accuracy")
    assert found is not None
    assert (found.before, found.after, found.difference.count) == (0.0, 0.0, 1)
    assert compare(ours, report({"z": 1.0}), "accuracy") is None


def test_a_policy_whose_hard_tasks_fail_does_not_look_better():
    # Both solve the easy tasks alone. Ours fails with an error on 11 of the 12 hard ones, so of what is scored for both
    # nothing differs; counted against it, 11 of 102 tasks may be lost.
    hard = [f"h{n}" for n in range(12)]
    ours = report(solved(EASY, 1) | solved(hard[:1], 0), dict.fromkeys(hard[1:], 1))
    theirs = report(solved(EASY, 1) | solved(hard, 0))
    found = compare(ours, theirs, "accuracy")
    assert found is not None
    assert found.difference.mean == 0.0
    assert found.errors == 11
    # On all tasks ours is lowest where it failed, as the rival is: equal again.
    assert completed(ours, "accuracy", 0.0) == solved(EASY, 1) | solved(hard, 0)
    # But a mean over what was scored had been 90/91 beside 90/102.
    assert guarded_mean(ours, "accuracy") == pytest.approx(90 / 102)


def test_errors_of_the_rival_count_as_its_best():
    # Ours solves 60 of 100, the rival 40 and fails on 15 of those that ours solves.
    tasks = [f"t{n:03d}" for n in range(100)]
    ours = report({task: float(n < 60) for n, task in enumerate(tasks)})
    kept = {task: float(n < 40) for n, task in enumerate(tasks) if not 40 <= n < 55}
    theirs = report(kept, dict.fromkeys(tasks[40:55], 1))
    found = compare(ours, theirs, "accuracy")
    assert found is not None
    assert found.difference.count == 85
    assert found.difference.mean == pytest.approx(5 / 85)
    # Counted as solved, the 15 leave 5 of 100.
    assert found.low_with_errors < found.difference.low + 0.01
    without = compare(ours, report(solved(tasks[:40], 1) | solved(tasks[40:], 0)), "accuracy")
    assert without is not None
    assert without.exceeds(0.0)
    assert not found.exceeds(0.0)


def test_a_rival_is_better_only_if_the_errors_of_ours_could_not_close_the_gap():
    # Of 100 tasks the rival solves 80; ours solves 50, and fails with errors on the 40 last, 10 of which it might lose.
    tasks = [f"t{n:03d}" for n in range(100)]
    theirs = report({task: float(n < 80) for n, task in enumerate(tasks)})
    ours = report({task: float(n < 50) for n, task in enumerate(tasks[:60])}, dict.fromkeys(tasks[60:], 1))
    found = compare(ours, theirs, "accuracy")
    assert found is not None
    assert found.difference.high < 0  # on what was scored for both: 50 beside 60 of 60
    assert found.high_with_errors > 0  # counted as solved, ours has 90 beside 80
    assert found.low_with_errors <= found.difference.low
    assert compare(theirs, ours, "accuracy").low_with_errors == pytest.approx(-found.high_with_errors)


def test_tasks_without_a_score_for_either_are_left_out_of_both_and_named():
    tasks = [f"t{n:02d}" for n in range(40)]
    ours = report(solved(tasks[2:], 1), {"t00": 1, "t01": 1})
    theirs = report(solved(tasks[2:], 0), {"t00": 1, "t01": 1})
    found = compare(ours, theirs, "accuracy")
    assert found is not None
    assert found.without_score == ("t00", "t01")
    assert found.errors == 0
    assert (found.low_with_errors, found.high_with_errors) == (found.difference.low, found.difference.high)


@pytest.mark.parametrize("rest", [0.0, 1.0])
def test_the_bounds_with_errors_never_lie_within_those_without(rest):
    # Scored for both are two tasks, with the differences 1 and -1, whose interval is all of -1 to 1. On 30 others ours
    # failed: counted as the lowest score beside 0, or as the highest beside 1, they differ by 0, and the interval of
    # all 32 is narrow. But tasks that a policy failed on do not make a result surer.
    tasks = [f"t{n:02d}" for n in range(30)]
    ours = report({"a": 1.0, "b": 0.0}, dict.fromkeys(tasks, 1))
    theirs = report({"a": 0.0, "b": 1.0} | dict.fromkeys(tasks, rest))
    found = compare(ours, theirs, "accuracy")
    assert found is not None
    assert (found.difference.mean, found.errors) == (0.0, 30)
    assert (found.low_with_errors, found.high_with_errors) == (found.difference.low, found.difference.high) == (-1, 1)


def test_some_errors_of_several_attempts_count_by_their_share():
    # x: one of four attempts failed, the other three have the mean 2/3, as the lowest (2/3 * 3 + 0) / 4 = 0.5.
    # y: all failed. z has no errors.
    one = report({"x": 2 / 3, "z": 1.0}, {"x": 1, "y": 4}, samples=4)
    assert completed(one, "accuracy", 0.0) == pytest.approx({"x": 0.5, "y": 0.0, "z": 1.0})
    assert completed(one, "accuracy", 1.0) == pytest.approx({"x": 0.75, "y": 1.0, "z": 1.0})
    assert guarded_mean(one, "accuracy") == pytest.approx(0.5)
    assert guarded_mean(one, "accuracy", "high") == pytest.approx(2.75 / 3)


def test_without_a_declared_range_the_worst_that_occurred_counts():
    assert range_of("reward") is None
    assert range_of("rewards/style") is None
    ours = report({"a": 3.0, "b": 1.0}, {"c": 1}, metric="reward")
    theirs = report({"a": 0.0, "b": -2.0, "c": 0.0}, metric="reward")
    found = compare(ours, theirs, "reward")
    assert found is not None
    assert not found.declared
    assert found.difference.mean == 3.0
    # c: -2 (the lowest of both) minus 0.
    assert guarded_mean(ours, "reward") == pytest.approx(5 / 3)  # of its own report the lowest is 1
    assert found.low_with_errors < 0


def test_the_worst_is_that_of_a_rollout_and_not_of_a_task():
    # Means over 64 attempts are near the middle; what one of them may be is at the ends.
    ours = EvaluationReport(
        "gate", "p", 64, {}, {"reward": {"a": 0.1}}, 64, errors={"b": 64}, extremes={"reward": (-1, 1)}
    )
    assert guarded_mean(ours, "reward") == pytest.approx((0.1 - 1.0) / 2)


def test_two_policies_are_compared_on_one_scale():
    # A: 80 tasks at 1 and 20 at -1, in the mean 0.6. B: 78 at 1, two at 0.5, and the same 20 failed: at -1 it is worse.
    easy, hard = [f"e{n}" for n in range(80)], [f"h{n}" for n in range(20)]
    a = report(solved(easy, 1) | solved(hard, -1), metric="reward")
    b = report(solved(easy[2:], 1) | solved(easy[:2], 0.5), dict.fromkeys(hard, 1), metric="reward")
    assert is_better(a, b, "reward")
    assert not is_better(b, a, "reward")
    assert is_better(a, report({}, metric="reward"), "reward")
    assert not is_better(report({}, metric="reward"), a, "reward")
    assert is_better(a, None, "reward")  # the first one
    assert not is_better(report({}, metric="reward"), None, "reward")
    same, more = (replace(a, per_task={"accuracy": {"t": 0.0}, "reward": {"t": reward}}) for reward in (0.5, 0.75))
    assert is_better(more, same, "accuracy")  # none is right, and the reward decides
    assert not is_better(same, more, "accuracy")
    assert not is_better(same, same, "accuracy")


def test_few_tasks_of_a_score_without_a_range_show_nothing():
    # As many of each as there are, the difference of two scores may be as large to the other side.
    for count in (1, 2, 3):
        tasks = [f"t{n}" for n in range(count)]
        found = compare(
            report(solved(tasks, 0.5), metric="reward"), report(solved(tasks, 0), metric="reward"), "reward"
        )
        assert found is not None
        assert not found.exceeds(0.0)


def test_groups_are_those_of_the_tasks():
    groups = {f"t{n}": str(n % 3) for n in range(30)}
    ours, theirs = report(solved(groups, 1), groups=groups), report(solved(groups, 0), groups=groups)
    found = compare(ours, theirs, "accuracy")
    assert found is not None
    assert (found.difference.count, found.difference.groups) == (30, 3)


def test_a_report_that_lacks_the_metric_raises():
    with pytest.raises(ValueError, match=r"no scores for 'reward' .* \(it has: accuracy\)"):
        compare(report({"a": 1.0}), report({"a": 1.0}), "reward")
    assert guarded_mean(report({}), "accuracy") is None
    assert isinstance(compare(report({"a": 1.0}), report({"a": 0.0}), "accuracy").difference, Interval)


def test_rare_large_losses_that_did_not_occur_are_possible_where_the_range_is_declared():
    # 198 tasks gained 0.1 and none lost. A loss of 10 on one task in 100 would undo the gain, and at that rate 198
    # tasks show none 14 % of the time (0.99 ** 198).
    tasks = [f"t{n:03d}" for n in range(198)]
    ours = report(solved(tasks, 0.6) | {"z": 0.6}, metric="reward")
    theirs = report(solved(tasks, 0.5) | {"z": 0.6}, metric="reward")
    unknown = compare(ours, theirs, "reward")
    assert unknown is not None
    assert unknown.exceeds(0.0)
    assert not unknown.declared
    ranges = {"reward": (-10.0, 1.0)}
    ours, theirs = replace(ours, ranges=ranges), replace(theirs, ranges=ranges)
    found = compare(ours, theirs, "reward")
    assert found is not None
    assert found.declared
    assert not found.exceeds(0.0)
    assert found.difference.mean == pytest.approx(19.8 / 199)


def test_errors_count_as_the_lowest_score_that_is_possible():
    one = replace(report({"a": 0.5}, {"b": 1}, metric="reward"), ranges={"reward": (-10.0, 1.0)})
    assert guarded_mean(one, "reward") == (0.5 - 10.0) / 2
    assert guarded_mean(one, "reward", "high") == (0.5 + 1.0) / 2
    # Beside 0.4 on both tasks the lowest that occurred, 0.4, would not have made it worse.
    other = replace(report({"a": 0.4, "b": 0.4}, metric="reward"), ranges={"reward": (-10.0, 1.0)})
    assert not is_better(one, other, "reward")
    assert is_better(replace(one, ranges={}), other, "reward")


def test_the_range_of_two_reports_holds_both_and_is_unknown_if_one_is():
    assert range_of("reward", {"reward": (-1.0, 1.0)}, {"reward": (0.0, 2.0)}) == (-1.0, 2.0)
    assert range_of("reward", {"reward": (-1.0, 1.0)}, {}) is None
    assert range_of("accuracy", {}) == (0.0, 1.0)


def test_an_error_hides_no_score_in_a_part_of_another_environment():
    # The task b/1 failed. It could have been anything in `accuracy` and in b's part, and has no part of a.
    scores = {"accuracy": {"a/1": 1.0}, "rewards/a/p": {"a/1": 1.0}, "rewards/b/p": {}}
    of_two = replace(
        report({}, {"b/1": 1}), per_task=scores, environments={"a/1": "a", "b/1": "b"}, groups={"a/1": "1", "b/1": "2"}
    )
    assert completed(of_two, "accuracy", 0.0) == {"a/1": 1.0, "b/1": 0.0}
    assert completed(of_two, "rewards/b/p", 0.0) == {"b/1": 0.0}
    assert completed(of_two, "rewards/a/p", 0.0) == {"a/1": 1.0}
    found = compare(of_two, of_two, "rewards/a/p")
    assert found is not None
    assert (found.errors, found.without_score, found.low_with_errors) == (0, (), found.difference.low)
