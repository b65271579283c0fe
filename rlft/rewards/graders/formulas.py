"""Computes with names and numbers: a formula such as `0.7 * right + 0.3 * min(short, 1)`, and nothing else.

Between which numbers it lies is computed from the ranges of its names (interval arithmetic).
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

LONGEST_FORMULA = 2000
"""The most characters of a formula."""
_DEEPEST = 300  # operators within each other; whoever computes with the tree goes down as many calls

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min, "max": max, "abs": abs, "floor": math.floor, "ceil": math.ceil, "exp": math.exp, "sqrt": math.sqrt,
    "log": math.log,
}  # fmt: skip
_WRITE = f"write numbers and names with + - * / ^, parentheses and {', '.join(_FUNCTIONS)}"


def check_formula(formula: str, names: Mapping[str, object]) -> str:
    """Return the formula. Raises ValueError for what is none, or uses a name that is not among `names`."""
    for node in ast.walk(parsed(formula)):
        if isinstance(node, ast.Name) and node.id not in names and node.id not in _FUNCTIONS:
            raise ValueError(f"{formula!r:.80} uses {node.id}, and the graders are {', '.join(names)}")
    return formula


def compute(formula: str, values: Mapping[str, float]) -> float:
    """Return what a formula comes to with these values of its names.

    `^` is a power, `log` the natural logarithm, and all is computed with floats, so that no number grows without end.
    Raises ValueError where it comes to no finite number.
    """
    try:
        result = _value(parsed(formula).body, values)
    except (ArithmeticError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{formula!r:.80} cannot be computed with {dict(values)}: {error}") from None
    if not math.isfinite(result):
        raise ValueError(f"{formula!r:.80} comes to {result} with {dict(values)}")
    return result


def linear_terms(formula: str) -> dict[str, float] | None:
    """Return {name: its factor} if a formula is a sum of names, each once and times a number; else `None`."""
    terms: dict[str, float] = {}

    def add(node: ast.expr, sign: float) -> bool:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            return add(node.left, sign) and add(node.right, sign if isinstance(node.op, ast.Add) else -sign)
        factor, name = _term(node)
        if name is None or name in terms or name in _FUNCTIONS:
            return False
        terms[name] = sign * factor
        return True

    return terms if add(parsed(formula).body, 1.0) else None


def _term(node: ast.expr) -> tuple[float, str | None]:
    match node:
        case ast.Name(id=name):
            return 1.0, name
        case ast.BinOp(left=ast.Constant(value=int() | float() as factor), op=ast.Mult(), right=ast.Name(id=name)):
            return float(factor), name
        case ast.BinOp(left=ast.Name(id=name), op=ast.Mult(), right=ast.Constant(value=int() | float() as factor)):
            return float(factor), name
        case ast.BinOp(left=ast.Name(id=name), op=ast.Div(), right=ast.Constant(value=int() | float() as factor)):
            return (1 / factor, name) if factor else (0.0, None)
        case _:
            return 0.0, None


def parsed(formula: str) -> ast.Expression:
    """Return the tree of a formula, which has nothing in it but what a formula may have. Raises ValueError."""
    if len(formula) > LONGEST_FORMULA:
        raise ValueError(f"a formula has at most {LONGEST_FORMULA} characters, this one {len(formula)}")
    depth = 0
    try:
        # In Python ^ is another operator, which binds less than +; a formula has no text in which one could stand.
        tree = ast.parse(formula.strip().replace("^", "**"), mode="eval")
        level: list[ast.AST] = [tree]
        while level and depth <= _DEEPEST:
            for node in level:
                _check(node, formula)
            depth, level = depth + 1, [child for node in level for child in ast.iter_child_nodes(node)]
    except (RecursionError, MemoryError):  # what CPython says of deep nesting; its parser says MemoryError
        raise _too_deep(formula) from None
    except SyntaxError:
        raise ValueError(f"{formula!r:.80} is no formula; {_WRITE}") from None
    if depth > _DEEPEST:
        raise _too_deep(formula)
    return tree


def _too_deep(formula: str) -> ValueError:
    return ValueError(f"{formula!r:.80} has more than {_DEEPEST} signs or parentheses within each other")


def _check(node: ast.AST, formula: str) -> None:
    match node:
        case ast.Expression() | ast.Name() | ast.Load() | ast.operator() | ast.UAdd() | ast.USub():
            known = not isinstance(node, ast.operator) or type(node) in _BINARY
        case ast.BinOp():
            known = True
        case ast.UnaryOp(op=op):
            known = isinstance(op, ast.UAdd | ast.USub)
        case ast.Constant(value=value):
            known = type(value) in (int, float) and _is_finite(value)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            known = name in _FUNCTIONS and bool(args) and not any(isinstance(each, ast.Starred) for each in args)
        case _:
            known = False
    if not known:
        raise ValueError(f"{formula!r:.80} is no formula: it has {ast.unparse(node)!r:.40}; {_WRITE}")


def _is_finite(number: Any) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number that is no float
        return False


def _value(node: ast.expr, values: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name):
            return float(values[name])
        case ast.UnaryOp(op=op, operand=operand):
            return -_value(operand, values) if isinstance(op, ast.USub) else _value(operand, values)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, values), _value(right, values))
        case ast.Call(func=ast.Name(id=name), args=args):
            given = [_value(each, values) for each in args]
            return float(min(given) if name == "min" else max(given) if name == "max" else _FUNCTIONS[name](*given))
        case _:  # `_check` has let nothing else through
            raise ValueError(ast.unparse(node))


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
