"""Tests numerically whether an expression can be an integral of another.

It comes before the symbolic comparison, which may take for ever on a wrong answer.
"""

from __future__ import annotations

from typing import Any

import mpmath
import sympy

_POINTS = ("0.3717", "1.2345", "2.7071")  # at which derivative and integrand are compared
_DIGITS, _SAME = 30, 1e-9  # decimal digits of the computation, and the relative difference that counts as none


def may_be_antiderivative(answer: str, integrand: str, variable: str) -> bool:
    """Return whether the derivative of `answer` by `variable` has the integrand's value at three points.

    Both are expressions in sympy's notation that `check_expression` accepts: sympy evaluates them as Python. Letters
    other than the variable count as constants. Points at which nothing can be computed are passed over, so a true
    result only means that the verifier must decide.
    """
    x = sympy.Symbol(variable)
    names = {variable: x, "C": sympy.Symbol("C")}
    try:
        found, wanted = (_function(sympy.parse_expr(text, local_dict=names), x) for text in (answer, integrand))
    except (SyntaxError, TypeError, ValueError, AttributeError, NameError, ArithmeticError, RecursionError):
        return True
    with mpmath.workdps(_DIGITS):
        return not any(_differ(found, wanted, mpmath.mpf(point)) for point in _POINTS)


def _function(expression: Any, x: Any) -> Any:
    """Return the expression as a function of x from mpmath's numbers to mpmath's numbers."""
    constants = {each: sympy.Rational(3, 7) for each in expression.free_symbols - {x}}
    return sympy.lambdify(x, expression.subs(constants), "mpmath")


def _differ(found: Any, wanted: Any, point: Any) -> bool:
    try:
        slope, value = mpmath.diff(found, point), wanted(point)
        return bool(abs(slope - value) > _SAME * (1 + abs(value)))
    except (TypeError, ValueError, ArithmeticError, NameError):  # one of them has no number at this point
        return False
