"""Decides which texts are safe to evaluate: arithmetic and nothing else, with no number that is too large.

sympy's `parse_expr`, which some verifiers call, evaluates its text as Python. So a text that a model wrote is parsed
and checked here first, without being run. A numerical test whether one can be an integral of another comes before the
symbolic one, which may take for ever on a wrong answer.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import sympy

from rlft.texts.syntax import parse

_TRIGONOMETRIC = ("sin", "cos", "tan", "sec", "csc", "cot", "asin", "acos", "atan", "sinh", "cosh", "tanh")
FUNCTIONS = frozenset({*_TRIGONOMETRIC, "exp", "log", "ln", "sqrt", "Abs"})
LONGEST_EXPRESSION = 500
"""The most characters that an expression may have."""
MOST_BITS = 1024
"""The most bits that any number in an expression may have, by an upper bound that is found without computing it."""
_DEEPEST = 50  # operations and calls within each other
_TOWERS = ("exp", "sinh", "cosh", "tanh")  # left unevaluated, but three within each other grow beyond any memory
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


class NoExpression(ValueError):
    """Raised for a text that is no expression which may be evaluated; its text says why."""


def check_expression(text: str) -> None:
    """Raise `NoExpression` unless the text is an expression in Python's notation that is safe and quick to evaluate.

    It may have numbers, names, `+ - * / **`, parentheses and calls of `FUNCTIONS`, at most `LONGEST_EXPRESSION`
    characters, and no number or intermediate result of more than `MOST_BITS` bits, by an upper bound in which a name
    counts as two bits.
    """
    _bits(_parse(text), _DEEPEST)


def exact_value(text: str) -> Fraction | None:
    """Return the value of an expression of numbers and `+ - * /`; `None` if it has anything else or divides by 0."""
    try:
        node = _parse(text)
        _bits(node, _DEEPEST)
        return _value(node)
    except (NoExpression, ZeroDivisionError):
        return None


def _parse(text: str) -> ast.expr:
    if len(text) > LONGEST_EXPRESSION:
        raise NoExpression(f"has {len(text)} characters, more than {LONGEST_EXPRESSION}")
    try:
        return parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise NoExpression(f"is no expression: {error}") from error


def _bits(node: ast.expr, depth: int) -> int:
    """Return an upper bound of the bits of numerator and denominator of every value that the node may have.

    Raises NoExpression for anything that is not allowed, and for a node with more than `depth` levels.
    """
    if depth == 0:
        raise NoExpression("is nested too deeply")
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            bits = _bits_of(value)
        case ast.Name(id=name) if _NAME.fullmatch(name):
            bits = 2
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=operand):
            bits = _bits(operand, depth - 1)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            bits = _bits(left, depth - 1) * _power(_bits(right, depth - 1))
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            bits = _bits(left, depth - 1) + _bits(right, depth - 1) + 1
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
            inside = _bits(argument, depth - 1)
            bits = 8 * inside if name in _TOWERS else inside + 2
        case _:
            raise NoExpression(f"has {type(node).__name__} in it, which is not allowed")
    if bits > MOST_BITS:
        raise NoExpression(f"may come to a number of {bits} bits, more than {MOST_BITS}")
    return bits


def _bits_of(value: float) -> int:
    if isinstance(value, float) and not abs(value) < float("inf"):
        raise NoExpression("has a number too large to be read")
    number = Fraction(str(value))
    return max(number.numerator.bit_length(), number.denominator.bit_length(), 1)


def _power(bits: int) -> int:
    """Return an upper bound of an exponent of so many bits. Raises NoExpression if it is far beyond `MOST_BITS`."""
    if bits > MOST_BITS.bit_length():
        raise NoExpression(f"has an exponent that may have {bits} bits")
    return 2**bits


def _value(node: ast.expr) -> Fraction | None:
    match node:
        case ast.Constant(value=int() | float() as value):
            return Fraction(str(value))
        case ast.UnaryOp(op=sign, operand=operand):
            value = _value(operand)
            return -value if value is not None and isinstance(sign, ast.USub) else value
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            first, second = _value(left), _value(right)
            return None if first is None or second is None else _OPERATORS[type(sign)](first, second)
        case _:
            return None


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
