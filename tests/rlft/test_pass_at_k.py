"""rlft.pass_at_k: the estimator, the curves of two policies, and what is said of them."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.pass_at_k import compare_pass_at_k, most_with_more, pass_at_k
from rlft.types import EvaluationReport


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
