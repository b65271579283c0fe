"""Between which numbers a formula lies, by the ranges of its names (interval arithmetic)."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping

from rlft.graders.formulas import parsed

Range = tuple[float, float]
"""The lowest and the highest number, both finite."""

_RISING: dict[str, Callable[[float], float]] = {
    "floor": math.floor, "ceil": math.ceil, "exp": math.exp, "sqrt": math.sqrt, "log": math.log,
}  # fmt: skip


def formula_range(formula: str, ranges: Mapping[str, Range]) -> Range:
    """Return numbers between which a checked formula lies wherever each of its names is within its range.

    They may lie further apart than they need: `a - a` is taken to have two different values of `a`. Raises ValueError,
    whose text says which part, where a part has no bound, such as a division by what may be 0.
    """
    return _range(parsed(formula).body, ranges)


def _range(node: ast.expr, ranges: Mapping[str, Range]) -> Range:
    match node:
        case ast.Constant(value=int() | float() as number):
            found = (float(number), float(number))
        case ast.Name(id=name):
            found = ranges[name]
        case ast.UnaryOp(op=op, operand=operand):
            low, high = _range(operand, ranges)
            found = (-high, -low) if isinstance(op, ast.USub) else (low, high)
        case ast.BinOp(left=left, op=op, right=right):
            found = _of_two(node, op, _range(left, ranges), _range(right, ranges))
        case ast.Call(func=ast.Name(id=name), args=args):
            found = _of_function(node, name, [_range(each, ranges) for each in args])
        case _:
            raise _unbounded(node)
    if not all(map(math.isfinite, found)):
        raise _unbounded(node)
    return found


def _of_two(node: ast.expr, op: ast.operator, one: Range, two: Range) -> Range:
    match op:
        case ast.Add():
            return one[0] + two[0], one[1] + two[1]
        case ast.Sub():
            return one[0] - two[1], one[1] - two[0]
        case ast.Mult():
            corners = [a * b for a in one for b in two]
        case ast.Div() if not two[0] <= 0 <= two[1]:
            corners = [a / b for a in one for b in two]
        case ast.Pow() if two[0] == two[1] and two[0].is_integer() and two[0] >= 0:
            corners = [_power(node, a, two[0]) for a in one]
            corners += [0.0] if one[0] <= 0 <= one[1] and two[0] > 0 else []
        case ast.Pow() if one[0] > 0 or (one[0] == 0 and two[0] >= 0):  # monotone in either
            corners = [_power(node, a, b) for a in one for b in two]
        case _:
            raise _unbounded(node)
    return min(corners), max(corners)


def _of_function(node: ast.expr, name: str, args: list[Range]) -> Range:
    if name in ("min", "max"):
        choose = min if name == "min" else max
        return choose(low for low, _ in args), choose(high for _, high in args)
    if len(args) != 1:
        raise _unbounded(node)
    low, high = args[0]
    if name == "abs":
        return (0.0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
    try:
        return float(_RISING[name](low)), float(_RISING[name](high))
    except (ArithmeticError, ValueError):
        raise _unbounded(node) from None


def _power(node: ast.expr, base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except (ArithmeticError, ValueError):
        raise _unbounded(node) from None


def _unbounded(node: ast.expr) -> ValueError:
    return ValueError(f"{ast.unparse(node).replace('**', '^')!r:.80} has no bound")
