"""rlft.evaluation.statistics: intervals over groups of tasks, and pass@k of two policies."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.evaluation.statistics import (
    SHARE,
    Range,
    bounds,
    common_tasks,
    compare_pass_at_k,
    effective_groups,
    mean_interval,
    most_with_more,
    paired_difference,
    pass_at_k,
)
from rlft.types import EvaluationReport, Interval


def scores(*values):
    return {f"t{place:03d}": float(value) for place, value in enumerate(values)}


def test_the_interval_by_hand():
    # Four tasks, three solved, and two imagined at each end: centre (3 + 2) / 8 = 0.625. Squares around it:
    # 3 * 0.375^2 + 0.625^2 = 0.8125, and of the imagined 2 * (0.625^2 + 0.375^2) = 1.0625. Spread of the centre:
    # sqrt(1.875 * 8 / 7) / 8 = 0.18298; Student's quantile with 3 degrees is 3.18245. The longer tail is below: cubes
    # 3 * 0.375^3 - 0.625^3 = -0.08594, over 1.875^1.5 = -0.03347, times (2 * 3.18245^2 + 1) / 6 = -0.11858, so the
    # lower end reaches (3.18245 + 0.11858) * 0.18298 = 0.60403 down.
    found = mean_interval(scores(1, 1, 1, 0), range=SHARE)
    assert (found.mean, found.count, found.groups) == (0.75, 4, 4)
    assert found.low == pytest.approx(0.625 - 0.60403, abs=1e-5)
    assert found.high == 1.0  # 1.207 is no share


def test_only_the_end_on_the_side_of_the_longer_tail_is_moved_and_only_outward():
    # Of 1,000 differences 30 are -1 and the others 0.05: mean 0.0185. Six imagined at each end leave a centre of 18.5 /
    # 1012 = 0.01828; squares 30 * 1.01828^2 + 970 * 0.03172^2 + 6 * (1.01828^2 + 0.98172^2) = 44.087; spread
    # sqrt(44.087 * 1012 / 1011) / 1012 = 0.0065642. Cubes -30 * 1.01828^3 + 970 * 0.03172^3 = -31.645, over 44.087^1.5
    # -0.10810. The quantile of 99.5 % is 2.8133: (2 * 2.8133^2 + 1) / 6 = 2.8049, so 2.8133 + 0.3032 down.
    lost = np.array([[-1.0] * 30 + [0.05] * 970])
    low, high = (end[0] for end in bounds(lost, np.ones_like(lost), Range(-1, 1), imagined=(6.0,), confidence=0.995))
    assert (low, high) == pytest.approx((0.01828 - 3.1165 * 0.0065642, 0.01828 + 2.8133 * 0.0065642), abs=2e-5)
    mirrored = [end[0] for end in bounds(-lost, np.ones_like(lost), Range(-1, 1), imagined=(6.0,), confidence=0.995)]
    assert mirrored == pytest.approx([-high, -low])


def test_groups_by_hand():
    # Sums 2, 0 and 1 of three groups of two tasks; imagined are 2 * 2 groups of two: centre (3 + 4) / 14 = 0.5. Squares
    # (2 - 1)^2 + (0 - 1)^2 + 0 + 2 * 2^2 * (0.25 + 0.25) = 6; spread sqrt(6 * 7 / 6) / 14 = 0.18898. The quantile of
    # 50 % with 2 degrees is 0.81650: it reaches 0.15430.
    groups = dict(zip(scores(*range(6)), "aabbcc", strict=True))
    found = mean_interval(scores(1, 1, 0, 0, 1, 0), groups, SHARE, confidence=0.5)
    assert (found.mean, found.count, found.groups) == (0.5, 6, 3)
    assert (found.low, found.high) == pytest.approx((0.5 - 0.15430, 0.5 + 0.15430), abs=1e-5)


def test_many_tasks_follow_the_normal_approximation():
    # 400 tasks, half solved: standard error sqrt(0.25 / 400) = 0.025, so 0.5 -+ 1.96 * 0.025 = 0.451 to 0.549.
    found = mean_interval(scores(*[0, 1] * 200), range=SHARE)
    assert (found.low, found.high) == pytest.approx((0.451, 0.549), abs=0.001)
    less = mean_interval(scores(*[0, 1] * 200), range=SHARE, confidence=0.9)
    assert less.high - less.low == pytest.approx(2 * 1.645 * 0.025, abs=0.002)


def test_tasks_of_one_group_count_as_one():
    # Ten copies of each of 40 tasks say no more than the 40 do.
    one = mean_interval(scores(*[0, 1] * 20), range=SHARE)
    copies = scores(*[value for value in [0, 1] * 20 for _ in range(10)])
    groups = {task: str(place // 10) for place, task in enumerate(copies)}
    many = mean_interval(copies, groups, SHARE)
    assert (many.low, many.high) == pytest.approx((one.low, one.high))
    assert (many.count, many.groups) == (400, 40)
    alone = mean_interval(copies, range=SHARE)
    assert alone.high - alone.low < (many.high - many.low) / 2.5  # as if they were independent


def test_equal_values_are_no_certainty_where_others_are_possible():
    # All of 30 tasks are solved. Clopper & Pearson's exact lower end is 0.025^(1/30) = 0.884.
    found = mean_interval(scores(*[1] * 30), range=SHARE)
    assert (found.mean, found.high) == (1.0, 1.0)
    assert 0.8 < found.low < 0.92


def test_without_a_range_it_is_as_wide_as_what_occurred():
    assert mean_interval(scores(*[0.1] * 7)) == Interval(0.1, 0.1, 0.1, 7, 7, 7.0)
    # The mean is 0, and 3 is farthest from it: the range reaches as far to the other side.
    values = scores(*[-1.0, -1.0, -1.0, 3.0] * 5)
    assert mean_interval(values) == mean_interval(values, range=Range(-3.0, 3.0))


def test_one_group_may_be_anything():
    assert mean_interval(scores(0.25), range=SHARE) == Interval(0.25, 0.0, 1.0, 1, 1, 1.0)
    both = dict.fromkeys(scores(1, 1), "same")
    assert mean_interval(scores(1, 1), both, SHARE) == Interval(1.0, 0.0, 1.0, 2, 1, 1.0)


def test_groups_of_unequal_size_count_as_fewer():
    # One group of 50 tasks and 50 of one: (100)^2 / (50^2 + 50) = 3.92 groups of equal size.
    values = scores(*[1] * 50, *[0, 1] * 25)
    groups = {task: "large" if place < 50 else task for place, task in enumerate(values)}
    found = mean_interval(values, groups, SHARE)
    assert (found.groups, found.effective_groups) == (51, pytest.approx(3.922, abs=0.001))
    assert found.low < 0.1  # the large group may have gone the other way
    assert effective_groups(np.array([[3.0, 3.0, 3.0], [4.0, 0.0, 0.0]])) == pytest.approx([3.0, 1.0])


def test_a_large_gain_is_not_drawn_to_the_middle():
    # 194 of 200 tasks gained. The upper end reaches what a gain on 98 % of the tasks would be.
    found = paired_difference(scores(*[1] * 194, *[0] * 6), scores(*[0] * 200), range=SHARE)
    assert found.low < 0.95 < 0.98 < found.high


@pytest.mark.parametrize(
    ("values", "range", "words"),
    [
        ([], None, "at least one value"),
        ([0.0, float("nan")], None, "1 of 2 values are not finite"),
        ([float("inf"), 1.0], None, "not finite"),
        ([0.5, 1.5], SHARE, "scores from 0.5 to 1.5 are not within 0 to 1"),
    ],
)
def test_what_has_no_interval_raises(values, range, words):
    with pytest.raises(ValueError, match=words):
        mean_interval(scores(*values), range=range)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 5)), min_size=1, max_size=40))
def test_the_interval_holds_the_mean_and_stays_in_the_range(rows):
    values = scores(*(value for value, _ in rows))
    groups = {task: str(group) for task, (_, group) in zip(values, rows, strict=True)}
    found = mean_interval(values, groups, SHARE)
    assert 0 <= found.low <= found.mean <= found.high <= 1


def test_many_intervals_at_once_are_those_of_each():
    sums, sizes = np.array([[1.0, 2.0, 0.0], [3.0, 0.0, 1.0]]), np.array([[2.0, 2.0, 1.0], [3.0, 1.0, 1.0]])
    found = np.array(bounds(sums, sizes, SHARE))
    for row in range(2):
        assert found[:, row] == pytest.approx(np.array(bounds(sums[row], sizes[row], SHARE)))


def test_pairing_removes_what_both_share():
    # b is a minus 0.5 everywhere, however far apart the tasks are, and no other difference has occurred.
    a = {f"t{i}": float(i) for i in range(20)}
    b = {task: score - 0.5 for task, score in reversed(a.items())}
    assert paired_difference(a, b) == Interval(0.5, 0.5, 0.5, 20, 20, 20.0)


def test_a_difference_of_shares_is_between_minus_one_and_one():
    # Two tasks both gained. With one degree of freedom nothing is known: the quantile is 12.7.
    found = paired_difference(scores(1, 1), scores(0, 0), range=SHARE)
    assert (found.mean, found.low, found.high) == (1.0, -1.0, 1.0)


def test_difference_has_the_sign_of_a_minus_b():
    found = paired_difference(scores(*[1] * 75, *[0] * 25), scores(*[0] * 100), range=SHARE)
    assert found.mean == 0.75
    assert 0.55 < found.low < 0.75 < found.high < 0.9


def test_other_tasks_are_refused():
    a = {f"t{i}": 0.0 for i in range(6)}
    with pytest.raises(ValueError, match="6 differ"):
        paired_difference(a, {"t0": 0.0, "u": 1.0})


def test_only_tasks_that_both_have_are_compared():
    assert common_tasks({"b": 1.0, "a": 2.0, "c": 3.0}, {"a": 4.0, "b": 5.0, "d": 6.0}) == (
        {"a": 2.0, "b": 1.0},
        {"a": 4.0, "b": 5.0},
    )


def report(solved, n, errors=None):
    """A report of {task: solved attempts of n}; {task: attempts without a score} are among the others."""
    errors = errors or {}
    shares = {task: count / (n - errors.get(task, 0)) for task, count in solved.items() if errors.get(task, 0) < n}
    return EvaluationReport(
        "test", "p", n, {}, {"accuracy": shares}, sum(errors.values()), groups={t: t for t in solved}, errors=errors
    )


def tasks(*counts):
    """{task: solved attempts} for (how many tasks, solved attempts of each)."""
    flat = [solved for number, solved in counts for _ in range(number)]
    return {f"t{place:03d}": solved for place, solved in enumerate(flat)}


@pytest.mark.slow
@given(st.integers(1, 7), st.data())
def test_it_is_the_share_of_choices_with_a_solved_attempt(n, data):
    solved, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    chosen = list(combinations([True] * solved + [False] * (n - solved), k))
    assert pass_at_k(n, solved, k) == pytest.approx(sum(map(any, chosen)) / len(chosen))


@given(st.integers(2, 200), st.data())
def test_more_attempts_and_more_solved_never_do_worse(n, data):
    solved, k = data.draw(st.integers(0, n - 1)), data.draw(st.integers(1, n - 1))
    here = pass_at_k(n, solved, k)
    assert 0 <= here <= pass_at_k(n, solved, k + 1) <= 1
    assert here <= pass_at_k(n, solved + 1, k)
    assert pass_at_k(n, solved, 1) == pytest.approx(solved / n)
    assert pass_at_k(n, solved, n) == float(solved > 0)


@pytest.mark.parametrize(("n", "solved", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 0), (4, 2, 5)])
def test_impossible_counts_are_refused(n, solved, k):
    with pytest.raises(ValueError, match=f"pass@{k} cannot be estimated from {solved} solved attempts of {n}"):
        pass_at_k(n, solved, k)


def test_curves_are_means_over_tasks():
    # x: 1 of 3 is solved: 1/3, 1 - C(2,2)/C(3,2) = 2/3, 1. y: none. Trained: x always.
    found = compare_pass_at_k(report({"x": 1, "y": 0}, 3), report({"x": 3, "y": 0}, 3))
    assert found is not None
    assert found.start == pytest.approx((1 / 6, 1 / 3, 1 / 2))
    assert found.trained == pytest.approx((1 / 2, 1 / 2, 1 / 2))
    assert found.at_one.mean == pytest.approx(1 / 3)
    assert (found.at_n.mean, found.at_n.count) == (0.0, 2)


@pytest.mark.parametrize(
    ("start", "trained", "effect"),
    [
        # 80 of 100 tasks are within reach of both; the trained policy solves them at 6 attempts of 8 instead of 2.
        (tasks((80, 2), (20, 0)), tasks((80, 6), (20, 0)), "sharpened"),
        # pass@8 0.05, at most 0.125 by its interval: 64 attempts solve at most 1 - 0.875^8 = 0.657; trained: 0.954.
        (tasks((5, 1), (95, 0)), tasks((100, 4)), "widened"),
        # pass@8 0.5, at most 0.6: 64 attempts may solve 1 - 0.4^8 = 0.9993, more than 100 tasks can show.
        (tasks((50, 2), (50, 0)), tasks((100, 4)), "ahead"),
        # All tasks are solved by one attempt in a hundred: 0.077 by 8, and 0.474 by 64, which is all that the trained
        # policy solves by 8. The last doubling gained 0.038, which three more doublings would only take to 0.19.
        (tasks((8, 1), (92, 0)), tasks((47, 1), (53, 0)), "ahead"),
        # Within reach on every task, at 1 of 8 on 50 of them by chance: pass@8 0.5, pass@4 0.25. Three quarters always.
        (tasks((50, 1), (50, 0)), tasks((75, 8), (25, 0)), "ahead"),
        (tasks((100, 2)), tasks((50, 8), (50, 0)), "lost"),
        (tasks((80, 2), (20, 0)), tasks((80, 2), (20, 0)), "open"),
    ],
)
def test_what_training_did(start, trained, effect):
    found = compare_pass_at_k(report(start, 8), report(trained, 8))
    assert found is not None
    assert found.effect == effect


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(1, 16))
def test_no_tasks_gain_more_with_eight_times_the_attempts_than_the_bound(chances, n):
    def solved(k):  # pass@k of tasks that one attempt solves with these chances
        return 1 - sum((1 - chance) ** k for chance in chances) / len(chances)

    assert solved(8 * n) <= most_with_more(solved(n)) + 1e-9
    alike = 1 - (1 - chances[0]) ** n
    assert most_with_more(alike) == pytest.approx(1 - (1 - chances[0]) ** (8 * n))


def test_attempts_without_a_score_count_on_either_side_of_the_bound():
    start, trained = tasks((5, 1), (95, 0)), tasks((100, 4))
    # 20 tasks of the start have an attempt that may have been right: pass@8 up to 0.352, 64 attempts 0.969, over 0.954.
    assert compare_pass_at_k(report(start, 8), report(trained, 8)).effect == "widened"
    failed = dict.fromkeys(list(start)[80:], 1)
    assert compare_pass_at_k(report(start, 8, failed), report(trained, 8)).effect == "ahead"
    # Of half of the tasks all attempts of the trained policy failed: 0.5 solved for sure, less than 0.657.
    failed = dict.fromkeys(list(trained)[50:], 8)
    assert compare_pass_at_k(report(start, 8), report(trained | dict.fromkeys(failed, 0), 8, failed)).effect == "ahead"


def test_attempts_without_a_score_count_against_either_side():
    start, trained = tasks((50, 2), (50, 0)), tasks((100, 4))
    # All but the start's solved attempts failed: each may have been right, so nothing says that training gained any.
    failed = dict.fromkeys(list(start)[50:], 7)
    found = compare_pass_at_k(report(start, 8, failed), report(trained, 8))
    assert found is not None
    assert found.errors == 350
    assert found.at_n.mean == 0.5
    assert found.effect == "open"
    assert found.at_n.low <= 0


def test_other_numbers_of_attempts_are_refused_and_nothing_is_said_without_scores():
    with pytest.raises(ValueError, match="4 attempts at a task cannot be compared with 8"):
        compare_pass_at_k(report({"x": 1}, 4), report({"x": 1}, 8))
    assert compare_pass_at_k(report({"x": 0}, 4, {"x": 4}), report({"x": 1}, 4)) is None
