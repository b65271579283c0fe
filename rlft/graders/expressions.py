"""Which texts are arithmetic and nothing else, so that what evaluates them neither runs code nor takes for ever.

Computer algebra (sympy's `parse_expr`, which some verifiers use) evaluates its text as Python. So a text that a
model wrote is read here first, without being run.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from fractions import Fraction

_TRIGONOMETRIC = ("sin", "cos", "tan", "sec", "csc", "cot", "asin", "acos", "atan", "sinh", "cosh", "tanh")
FUNCTIONS = frozenset({*_TRIGONOMETRIC, "exp", "log", "ln", "sqrt", "Abs"})
LONGEST_EXPRESSION = 500
"""Characters an expression may have."""
MOST_BITS = 1024
"""What no number in an expression may exceed in bits, as far as can be told without computing it."""
_DEEPEST = 50
_TOWERS = ("exp", "sinh", "cosh", "tanh")  # left unevaluated, but three within each other grow beyond any memory
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


class NoExpression(ValueError):
    """The text is not an expression that may be evaluated; says why."""


def check_expression(text: str) -> None:
    """Raise `NoExpression` unless the text is an expression in Python's notation that is safe and quick to evaluate.

    It may have numbers, names, `+ - * / **`, parentheses, calls of `FUNCTIONS`; `LONGEST_EXPRESSION` characters; and
    no number of more than `MOST_BITS` bits on the way, by an upper bound in which a name counts as 2.
    """
    _bits(_parse(text), _DEEPEST)


def exact_value(text: str) -> Fraction | None:
    """The value of an expression of numbers and `+ - * /`; `None` if it has anything else or divides by 0."""
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
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise NoExpression(f"is no expression: {error}") from error


def _bits(node: ast.expr, depth: int) -> int:
    """An upper bound of the bits of numerator and denominator of anything that the node may come to."""
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
    """The largest exponent of so many bits."""
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
