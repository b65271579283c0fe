"""Whether an expression can be an integral of another, by numbers: computer algebra takes for ever on wrong ones."""

from __future__ import annotations

from typing import Any

_POINTS = ("0.3717", "1.2345", "2.7071")
_DIGITS, _SAME = 30, 1e-9


def may_be_antiderivative(answer: str, integrand: str, variable: str) -> bool:
    """False where the derivative has another value than the integrand at some point.

    Both are expressions that `check_expression` takes, in sympy's notation; other letters count as constants. Where
    nothing can be computed it is True: then the verifier must decide.
    """
    import mpmath
    import sympy

    x = sympy.Symbol(variable)
    names = {variable: x, "C": sympy.Symbol("C")}
    try:
        found, wanted = (_function(sympy.parse_expr(text, local_dict=names), x) for text in (answer, integrand))
    except (SyntaxError, TypeError, ValueError, AttributeError, NameError, ArithmeticError, RecursionError):
        return True
    with mpmath.workdps(_DIGITS):
        return not any(_differ(found, wanted, mpmath.mpf(point)) for point in _POINTS)


def _function(expression: Any, x: Any) -> Any:
    """As a function of mpmath's numbers."""
    import sympy

    constants = {each: sympy.Rational(3, 7) for each in expression.free_symbols - {x}}
    return sympy.lambdify(x, expression.subs(constants), "mpmath")


def _differ(found: Any, wanted: Any, point: Any) -> bool:
    import mpmath

    try:
        slope, value = mpmath.diff(found, point), wanted(point)
        return bool(abs(slope - value) > _SAME * (1 + abs(value)))
    except (TypeError, ValueError, ArithmeticError, NameError):  # no number there
        return False
