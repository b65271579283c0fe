"""How parts with maxima add up, and what a part may not be."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.outcome import Failure
from rlft.rewards.rubric import beyond_bounds, check_numbers, check_parts, combine, full_total, never_given


@pytest.mark.parametrize(
    ("parts", "total"),
    [
        # worth: points 1 * 10, cite 2 * 2; full 14
        ({"points": 10, "cite": 2}, 14.0),
        ({"points": 5, "cite": 2}, 9.0),  # 1 * 5 + 2 * 2
        ({"points": 5, "cite": None}, 7.0),  # 5 of the 10 that apply, as half of all 14
        ({"points": None, "cite": 0.5}, 3.5),  # 1 of the 4 that apply, as a quarter of all 14
        ({"points": -10, "cite": 2}, -6.0),  # -1 * 10 + 2 * 2: a paid part has no lower bound
        ({"points": 5, "cite": None, "late": 3}, 5.5),  # 7, and 0.5 * 3 for being late, paid as it is
        ({"points": 5, "cite": None, "long": -1}, 6.0),  # 7, and 1 * 1 for its length: a part of maximum 0 takes away
        ({"points": 5, "cite": None, "calls": 99}, 7.0),  # a metric
    ],
)
def test_a_part_that_does_not_apply_counts_as_the_same_share_of_its_maximum(parts, total):
    weights = {"cite": 2.0, "late": -0.5, "calls": 0.0}
    maxima = {"points": 10.0, "cite": 2.0, "long": 0.0}
    assert combine(parts, weights, maxima) == pytest.approx(total)
    assert full_total(parts, weights, maxima) == 14.0


numbered = st.dictionaries(
    st.sampled_from("abcd"),
    st.tuples(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 3.0]), st.sampled_from([0.0, 0.5, 1.0, 2.0, 10.0])),
    min_size=1,
)


@given(numbered, st.data())
def test_nothing_within_its_bounds_earns_more_than_full(named, data):
    weights, maxima = ({name: pair[place] for name, pair in named.items()} for place in (0, 1))
    parts = {
        name: data.draw(st.none() | (st.floats(-2, maximum) if weight > 0 else st.floats(0, 2)))
        for name, (weight, maximum) in named.items()
    }
    whole = full_total(parts, weights, maxima)
    assert whole == pytest.approx(sum(max(weight, 0) * maximum for weight, maximum in named.values()))
    assert beyond_bounds(parts, weights, maxima) is None
    best = {name: None if score is None else float(weights[name] > 0) * maxima[name] for name, score in parts.items()}
    try:
        total, most = combine(parts, weights, maxima), combine(best, weights, maxima)
    except ValueError:
        assert whole > 0
        assert all(parts[n] is None for n, (weight, maximum) in named.items() if weight > 0 and maximum > 0)
        return
    assert total <= whole + 1e-9
    assert most == pytest.approx(whole)  # whichever parts apply
    # A part with a maximum m is the part s / m with the weight w * m.
    one = {n: None if s is None else s / (maxima[n] or 1.0) for n, s in parts.items()}
    same = {n: w * (maxima[n] or 1.0) if w > 0 else w for n, w in weights.items()}
    scaled = {n: s if weights[n] <= 0 else one[n] for n, s in parts.items()}
    zeros = {n: 0.0 for n in parts if weights[n] > 0 and not maxima[n]}
    assert combine(scaled, same, zeros) == pytest.approx(total)


def test_a_part_beyond_its_bounds_is_named_with_its_value_its_maximum_and_the_way_out():
    wrong = beyond_bounds({"form": 1.0, "points": 10.0}, {"form": 0.5}, {})
    assert wrong is not None
    assert wrong == Failure("compute_reward", "part 'points' is above its maximum: 10 of 1", wrong.fix)
    assert wrong.fix.startswith("return 1 for what is full, or declare another maximum")
    assert "@rlft.reward(maximum=10)" in wrong.fix
    assert beyond_bounds({"points": 10.5}, {}, {"points": 10.0}) is not None
    assert beyond_bounds({"points": 10.0 + 1e-12, "form": 1.0 + 1e-12}, {}, {"points": 10.0}) is None  # float noise
    assert beyond_bounds({"calls": 7.0}, {"calls": 0.0}, {}) is None  # a metric
    assert beyond_bounds({"calls": 7.0, "late": None}, {"calls": -1.0}, {}) is None  # a large penalty
    pays = beyond_bounds({"late": -2.0}, {"late": -1.0}, {})
    assert str(pays).startswith(
        "compute_reward: part 'late' is a penalty that pays: -2 with the weight -1; what to do: return 0 or more"
    )
    assert beyond_bounds({"wrong": -1.0}, {}, {"wrong": 0.0}) is None
    assert beyond_bounds({"wrong": 0.5}, {}, {"*": 0.0}) is not None


@pytest.mark.parametrize("maximum", [-1.0, math.inf, math.nan, "10", None, True, 10**400])
def test_a_maximum_is_a_finite_number_of_at_least_zero(maximum):
    assert check_numbers({"points": 10, "late": 0}, "maximum", least=0) == {"points": 10.0, "late": 0.0}
    with pytest.raises(ValueError, match="the maximum of part 'points' is"):
        check_numbers({"points": maximum}, "maximum", least=0)


@pytest.mark.parametrize("maxima", [None, ["points"], 10])
def test_maxima_are_a_dict(maxima):
    with pytest.raises(ValueError, match="not a dict of"):
        check_numbers(maxima, "maximum", least=0)


def test_a_score_that_is_too_large_for_a_float_is_named():
    with pytest.raises(ValueError, match="part 'points' is inf"):
        check_parts({"points": 10**400})
    with pytest.raises(ValueError, match="part 'points' is -inf"):
        check_parts({"points": -(10**400)})


def test_parts_that_are_never_given():
    rows = [{"queue": None, "form": 1.0, "style": None}, {}, {"queue": None, "form": None, "style": None}]
    assert never_given(rows, {"style": 0.0}) == ["queue"]
    assert never_given([{}, {}], {}) == []
