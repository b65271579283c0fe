"""Arithmetic on names, and nothing else, and between which numbers it lies."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.rewards.graders.formulas import check_formula, compute, formula_range, linear_terms

VALUES = {"a": 3.0, "b": 0.5}


@pytest.mark.parametrize(
    ("formula", "value"),
    [("0.5 * a + 0.5 * b", 1.75), ("2^3 + 1", 9), ("-a^2", -9), ("min(a, 1) * max(b, 2)", 2), ("abs(-a) / 2", 1.5),
     ("floor(2.7) + ceil(b)", 3), ("exp(0) + sqrt(4) + log(1)", 3), ("(a - 1) * (b + 1)", 3)],
)  # fmt: skip
def test_formulas_are_computed(formula, value):
    assert compute(check_formula(formula, VALUES), VALUES) == pytest.approx(value)


@pytest.mark.parametrize(
    "formula",
    ["a if b else 1", "a.real", "__import__('os')", "a[0]", "'x'", "lambda: 1", "a == b", "f(a)", "min()", "a //",
     "a % 2", "True", "min(*a)", "a, b", "", "x", "(" * 300, "1j", "a := 1", "a" * 2001],
)  # fmt: skip
def test_everything_else_is_refused(formula):
    with pytest.raises(ValueError, match=r"no formula|uses |at most"):
        check_formula(formula, VALUES)


def test_what_is_nested_deeply_or_no_float_is_refused():
    for formula in ("-" * 1990 + "a", "+".join(["a"] * 400), "abs(" * 60 + "-" * 300 + "a" + ")" * 60):
        with pytest.raises(ValueError, match="more than 300 signs or parentheses within each other"):
            check_formula(formula, VALUES)
    with pytest.raises(ValueError, match=r"is no formula: it has '9+"):
        linear_terms("a * " + "9" * 1900)
    assert compute("+".join(["a"] * 250), VALUES) == 750


@pytest.mark.parametrize("formula", ["1 / 0", "10^10^10", "log(0)", "sqrt(0 - 1)", "exp(1000)", "1e308 * 10"])
def test_what_has_no_finite_value_raises(formula):
    with pytest.raises(ValueError, match=r"cannot be computed|comes to"):
        compute(formula, {})


def test_sums_are_taken_apart_and_nothing_else_is():
    assert linear_terms("0.5*a + b*0.25 - c + d/4") == {"a": 0.5, "b": 0.25, "c": -1.0, "d": 0.25}
    for formula in ("a * b", "a + 1", "a + a", "min(a, b)", "2 * (a + b)"):
        assert linear_terms(formula) is None


@given(a=st.floats(-100, 100), b=st.floats(-100, 100))
def test_it_is_pythons_arithmetic(a, b):
    assert math.isclose(compute("2 * a - b / 4", {"a": a, "b": b}), 2 * a - b / 4, abs_tol=1e-12)


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
