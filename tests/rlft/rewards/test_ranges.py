"""Which totals are possible, from the declared ranges of parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.rewards.rubric import Rubric, beyond_bounds, combine
from rlft.rewards.scoring import score_ranges, total_range


def rubric(minima, weights=None, maxima=None):
    return Rubric(weights or {}, maxima or {}, None, minima)


def test_the_total_of_shares_goes_from_nothing_to_the_weights():
    found = score_ranges(["a", "b"], rubric({"*": 0.0}, {"a": 1.0, "b": 0.5}))
    assert found == {"rewards/a": (0, 1), "rewards/b": (0, 1), "reward": (0, 1.5)}


def test_one_part_without_a_minimum_leaves_the_total_without_a_range():
    assert score_ranges(["a", "b"], rubric({"a": 0.0})) == {"rewards/a": (0, 1)}
    # but a metric adds nothing to it
    assert score_ranges(["a", "b"], rubric({"a": 0.0}, {"b": 0.0})) == {"rewards/a": (0, 1), "reward": (0, 1)}
    assert score_ranges(["a"], rubric({})) == {}


def test_penalties_take_from_the_lowest_total_and_leave_the_highest():
    # 2 * (-10..1) is -20 to 2; a penalty of 0 to 5 at -0.1 takes at most 0.5; a part from -3 to 0 takes at most 3.
    parts = {"a": (2.0, (-10.0, 1.0)), "cost": (-0.1, (0.0, 5.0)), "less": (1.0, (-3.0, 0.0))}
    assert total_range(parts) == pytest.approx((-23.5, 2.0))


def test_the_worst_part_can_stand_for_those_that_do_not_apply():
    # b alone applies and is at its worst, -2 of 1: it counts for both, (1 + 1) * -2.
    assert total_range({"a": (1.0, (0.0, 1.0)), "b": (1.0, (-2.0, 1.0))}) == (-4.0, 2.0)
    assert combine({"a": None, "b": -2.0}, {}) == -4.0


ENDS = st.tuples(st.floats(-10, 0), st.floats(0.1, 10))


@given(st.data())
def test_no_total_is_outside(data):
    names = data.draw(st.lists(st.sampled_from("abcd"), min_size=1, unique=True))
    ends = {name: data.draw(ENDS) for name in names}
    weights = {name: data.draw(st.sampled_from([-0.5, 0.5, 2.0])) for name in names}
    ends = {name: (max(low, 0.0) if weights[name] < 0 else low, high) for name, (low, high) in ends.items()}
    parts = {name: data.draw(st.none() | st.floats(*ends[name])) for name in names}
    maxima = {name: high for name, (_, high) in ends.items()}
    minima = {name: low for name, (low, _) in ends.items()}
    assert beyond_bounds(parts, weights, maxima, minima) is None
    low, high = score_ranges(names, rubric(minima, weights, maxima))["reward"]
    paid = [name for name in names if weights[name] > 0]
    if not paid or any(parts[name] is not None for name in paid):
        assert low - 1e-6 <= combine(parts, weights, maxima) <= high + 1e-6


@pytest.mark.parametrize(
    ("score", "weight", "said"),
    [
        (-11.0, 1.0, "part 'a' is below its minimum: -11, not -10 or more"),
        (-11.0, 0.0, "part 'a' is below its minimum"),
        (1.5, 1.0, "part 'a' is above its maximum: 1.5 of 1"),
        (1.5, 0.0, "part 'a' is above its maximum"),
    ],
)
def test_a_score_outside_a_declared_range_is_an_error(score, weight, said):
    wrong = beyond_bounds({"a": score}, {"a": weight}, {}, {"a": -10.0})
    assert wrong is not None
    assert said in wrong.why
    assert "reward_m" in wrong.fix
    assert (beyond_bounds({"a": score}, {"a": weight}, {}) is None) == (score < 0 or weight == 0)
