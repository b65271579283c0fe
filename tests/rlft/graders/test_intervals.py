"""Between which numbers formulas lie."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.graders.formulas import compute, formula_range

RANGES = {"a": (0.0, 10.0), "b": (0.0, 1.0), "c": (-1.0, 2.0), "d": (2.0, 4.0)}


@pytest.mark.parametrize(
    ("formula", "low", "high"),
    [
        ("max(a, b)", 0, 10), ("min(a, b)", 0, 1), ("a * b", 0, 10), ("a * c", -10, 20), ("a - d", -4, 8),
        ("-c", -2, 1), ("+d", 2, 4), ("a / d", 0, 5), ("b / d", 0, 0.5), ("c ^ 2", 0, 4), ("c ^ 3", -1, 8),
        ("d ^ 2", 4, 16), ("d ^ c", 0.25, 16), ("a ^ 0", 1, 1), ("a ^ 0.5", 0, math.sqrt(10)), ("abs(c)", 0, 2),
        ("abs(-d)", 2, 4), ("floor(c / 2)", -1, 1), ("ceil(d / 3)", 1, 2), ("exp(b)", 1, math.e),
        ("sqrt(d)", 2**0.5, 2),        ("log(d)", math.log(2), math.log(4)), ("max(a, b) / 10", 0, 1), ("3", 3, 3),
    ],
)  # fmt: skip
def test_a_range_by_value(formula, low, high):
    assert formula_range(formula, RANGES) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("formula", "part"),
    [("a / b", "a / b"), ("1 + a / c", "a / c"), ("log(b)", "log(b)"), ("sqrt(c)", "sqrt(c)"), ("c ^ 0.5", "c ^ 0.5"),
     ("a ^ -1", "a ^ (-1)"), ("exp(1000)", "exp(1000)"), ("exp(b, b)", "exp(b, b)"), ("1e308 * a", "1e+308 * a"),
     ("c ^ b", "c ^ b"), ("(1e200 + a) ^ 2", "(1e+200 + a) ^ 2")],
)  # fmt: skip
def test_what_has_no_bound_is_named(formula, part):
    with pytest.raises(ValueError, match="has no bound") as caught:
        formula_range(formula, RANGES)
    assert part in str(caught.value)


UNIT = st.floats(0, 1)
FORMULAS = st.recursive(
    st.sampled_from(["a", "b", "c", "d", "0.5", "2"]),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/^"), inner)
        | st.builds("{}({})".format, st.sampled_from(["abs", "floor", "exp", "sqrt", "log"]), inner)
        | st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), inner, inner)
    ),
    max_leaves=6,
)


@given(FORMULAS, st.fixed_dictionaries(dict.fromkeys(RANGES, UNIT)))
def test_no_value_lies_outside(formula, at):
    try:
        low, high = formula_range(formula, RANGES)
    except ValueError:
        return
    values = {name: RANGES[name][0] + share * (RANGES[name][1] - RANGES[name][0]) for name, share in at.items()}
    found = compute(formula, values)  # what has bounds has a value
    slack = 1e-9 * max(1.0, abs(low), abs(high))
    assert low - slack <= found <= high + slack or "floor" in formula
