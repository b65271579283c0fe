"""Integrals told from what is none by numbers, however long computer algebra would take."""

import time

import pytest

from rlft.rewards.graders.expressions import may_be_antiderivative

SINES = "*".join(f"sin(x+{n})" for n in range(40))
QUOTIENTS = "+".join(f"1/(x+{n})" for n in range(12))
TANGENT = "0.7434*x"  # its slope is that of x**2 at the first of the points, 0.3717
NESTED = "sin(" * 16 + "x" + ")" * 16


@pytest.mark.parametrize(
    ("answer", "integrand"),
    [
        ("x**2 + C", "2*x"),
        ("x**2 - 7", "2*x"),
        ("x**2 + k", "2*x"),
        ("log(Abs(x)) + C", "1/x"),
        ("log(x/5)", "1/x"),
        ("-cos(x)**2/2", "sin(x)*cos(x)"),
        ("sin(x)**2/2 + C", "sin(x)*cos(x)"),
        ("(x - 1)*exp(x)", "x*exp(x)"),
        ("(x-5)**5/5", "(x-5)**4"),
        ("no expression", "2*x"),  # the verifier says what it thinks of it
    ],
)
def test_what_may_be_one(answer, integrand):
    assert may_be_antiderivative(answer, integrand, "x")


@pytest.mark.parametrize(
    "answer", ["0", "x", "2*x", "x**2/3", "k*x**2", SINES, QUOTIENTS, NESTED, "exp(exp(x))", TANGENT]
)
def test_what_is_none_is_told_at_once(answer):
    started = time.perf_counter()
    assert not may_be_antiderivative(answer, "2*x", "x")
    assert time.perf_counter() - started < 10  # the first to run imports sympy
