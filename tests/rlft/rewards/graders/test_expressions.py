import time
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.rewards.graders.expressions import NoExpression, check_expression, exact_value

FINE = [
    "1",
    " x ",
    "-2*x**3 + 1/2",
    "sin(2*x)**2",
    "(x + 1)**10",
    "3*exp(4*x + 2) + C",
    "exp(exp(x))",
    "1.5e3",
    "2**100",
]


@pytest.mark.parametrize("text", FINE)
def test_arithmetic_is_fine(text):
    check_expression(text)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "is no expression"),
        ("2x", "is no expression"),
        ("x = 1", "is no expression"),
        ("1\0", "is no expression"),
        ("f(x)", "has Call in it"),
        ("sin(x, y)", "has Call in it"),
        ("sin(x=1)", "has Call in it"),
        ("open('x')", "has Call in it"),
        ("x.real", "has Attribute in it"),
        ("'a'", "has Constant in it"),
        ("1j", "has Constant in it"),
        ("True", "has Constant in it"),
        ("[1]", "has List in it"),
        ("lambda: 1", "has Lambda in it"),
        ("x if y else z", "has IfExp in it"),
        ("1 << 9", "has BinOp in it"),
        ("__x__", "has Name in it"),
        ("10**10**8", "an exponent that may have 64 bits"),  # 10 has 4 bits, 8 is less than 2**4: 4 * 16
        ("(10**99)**99", "may come to a number of"),
        ("9**9**9", "may have"),
        ("exp(exp(exp(x + 1)))", "may come to a number of"),  # 4 bits, then 32, 256, 2048
        ("1e999", "too large to be read"),
        ("1" * 501, "has 501 characters"),
        ("-" * 400 + "1", "nested too deeply"),
    ],
)
def test_what_is_not_evaluated(text, cause):
    with pytest.raises(NoExpression, match=cause):
        check_expression(text)


def test_values_are_exact():
    assert exact_value("0.1 + 0.2") == Fraction(3, 10)
    assert exact_value("-(8 - 2*3) / 4") == Fraction(-1, 2)
    assert [exact_value(text) for text in ("1/0", "x", "2**3", "sin(1)", "1,2", "")] == [None] * 6


NUMBERS = st.integers(0, 1000).map(str)
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({''.join(parts)})"),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS)
def test_values_are_those_of_python(text):
    try:
        expected = eval(text.replace("/", "*Fraction(1)/"), {"Fraction": Fraction})
    except ZeroDivisionError:
        expected = None
    assert exact_value(text) == expected


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="0123456789x+-*/() e.^!", max_size=60))
def test_never_raises_anything_else_and_never_takes_long(text):
    started = time.perf_counter()
    with suppress(NoExpression):
        check_expression(text)
    assert time.perf_counter() - started < 1
