"""Decides whether an answer in LaTeX is the gold answer, by math-verify and sympy.

math-verify's own limits of time are off (`sympy_parsing` says why). Instead answers are bounded before they are parsed,
and only expressions that agree in kind and in value at random points are compared symbolically.
"""

from __future__ import annotations

import logging
import random
from functools import lru_cache
from typing import Any

import sympy
from math_verify import verify

from rlft.rewards.graders.latex import (
    LONGEST_ANSWER,
    capital_names,
    named_value,
    plain_latex,
    same_words,
    without_unit,
    words_of,
)
from rlft.rewards.graders.sympy_parsing import MOST_TERMS, parse_latex, terms, uniform, without_warnings

_tell = lru_cache(logging.getLogger(__name__).warning)  # once of each gold
_POINTS = 3  # random points at which expressions with letters are compared
_DIGITS = 2 * LONGEST_ANSWER  # of the values that are compared; an answer has no room to fit half of them
_ROUNDED = 1e-3  # relative difference that may be rounding where a decimal has not been made exact (`uniform`)
_HIGH = 30  # the highest exponent in a relation or a set, unless its gold's is higher
_NONSENSE = (TypeError, ValueError, ArithmeticError, AttributeError, LookupError, NotImplementedError, RecursionError)
"""What sympy raises for expressions that mean nothing, such as the number of operations in an interval less a set."""


def same_answer(gold: str, answer: str) -> bool:
    r"""Return whether an answer in LaTeX equals the gold one, by math-verify's comparison, and is as finished as it is.

    Words, choices, ratios and times are compared letter by letter, and capital letters side by side keep their order.
    Beyond being equal, an answer must be of the gold's kind (a set is no number, `x = 1 or 2` is not 2; `x = 2` is),
    have no functions that the gold has not (`\arcsin(1/2)` is not `\pi/6`; `\cos` may stand for `\sin`), no decimals
    for an irrational number, and few operations more than the gold. What cannot be read, and what sympy makes nothing
    of, is not the gold answer; if the gold cannot be read, the log says so.
    """
    if len(answer) > LONGEST_ANSWER:
        return False
    gold, answer = plain_latex(gold), plain_latex(answer)
    words = words_of(gold)
    if words is not None and gold not in "abcdefghijklmnopqrstuvwxyz":  # a small letter may be a variable
        return same_words(words, answer)
    gold, answer = map(without_unit, _without_names(gold, answer))
    wanted, found = parse_latex(gold), parse_latex(answer)
    if wanted is None:
        _tell(f"the task's answer {gold!r} cannot be read as one LaTeX expression: only the same text is right")
    if wanted is None or found is None or capital_names(answer) != capital_names(gold):
        return False
    points = random.Random(f"{gold}\n{answer}")  # not to be foreseen by the answer, and the same in every run
    try:
        return (
            _same_letters(found, wanted)
            and _is_finished(found, wanted)
            and _equal(uniform(found, answer), uniform(wanted, gold), points)
        )
    except _NONSENSE:
        return False


def _without_names(gold: str, answer: str) -> tuple[str, str]:
    """Return both without a name before them (`x =`), if they have the same name, or if only one has a name and the
    other is no equation; else as they are."""
    one, other = named_value(gold), named_value(answer)
    if one and other:
        return (one[1], other[1]) if one[0] == other[0] else (gold, answer)
    if one and "=" not in answer:
        return one[1], answer
    return (gold, other[1]) if other and "=" not in gold else (gold, answer)


def _equal(found: Any, wanted: Any, points: random.Random) -> bool:
    """Return whether two expressions are equal, by kind, by numbers, and then by math-verify."""
    if not _same_kind(found, wanted) or _differ(found, wanted, points):
        return False
    if found != wanted and terms(found) > max(terms(wanted), MOST_TERMS):
        return False
    with without_warnings("math_verify.grader"):
        return bool(verify(wanted, found, timeout_seconds=None))


def _same_kind(found: Any, wanted: Any) -> bool:
    both_equations = isinstance(found, sympy.Equality) and isinstance(wanted, sympy.Equality)
    return both_equations or _kind(found) == _kind(wanted)


def _kind(expression: Any) -> str:
    """Return `ordered` (an interval or a tuple), `set`, `matrix`, `relation` or `value`; `x = 2` is of 2's kind."""
    if isinstance(expression, sympy.Equality) and (expression.lhs.is_Symbol or expression.rhs.is_Symbol):
        expression = expression.rhs if expression.lhs.is_Symbol else expression.lhs
    if isinstance(expression, sympy.Interval | sympy.Tuple):
        return "ordered"  # (1, 2) may be either
    kinds = {"set": sympy.Set, "matrix": sympy.MatrixBase, "relation": sympy.logic.boolalg.Boolean}
    return next((kind for kind, types in kinds.items() if isinstance(expression, types)), "value")


def _same_letters(found: Any, wanted: Any) -> bool:
    """Return whether both have the same letters in any case, or one of them has none: `x < 3` is not `y < 3`."""
    said, asked = ({each.name.lower() for each in expression.free_symbols} for expression in (found, wanted))
    return said == asked or not (said and asked)


def _is_finished(found: Any, wanted: Any) -> bool:
    """Return whether an answer is worked out as far as its gold: in functions, decimals and number of operations."""
    if _kind(wanted) == "matrix":
        return True
    if not _functions(found) <= _functions(wanted):
        return False
    most = 2 * _operations(wanted) + 4 if wanted.free_symbols else _operations(wanted) + 2
    is_rounded = found.has(sympy.Float) and not wanted.has(sympy.Float) and wanted.is_rational is False
    return not is_rounded and _operations(found) <= most


def _operations(expression: Any) -> int:
    """Return the number of operations; e is a number here, though sympy counts it as an exponential.

    A set or relation counts as one beside its parts: sympy would go through the elements of an infinite set.
    """
    if not isinstance(expression, sympy.Expr):
        return bool(expression.args) + sum(map(_operations, expression.args))
    return sympy.count_ops(expression) - sum(each is sympy.E for each in sympy.preorder_traversal(expression))


def _functions(expression: Any) -> set[Any]:
    """Return the functions in an expression, with all trigonometric ones if it has any: they stand for each other."""
    circle = {sympy.sin, sympy.cos, sympy.tan, sympy.cot, sympy.sec, sympy.csc}
    functions = {each.func for each in expression.atoms(sympy.Function)}
    return functions | circle if functions & circle else functions


def _differ(found: Any, wanted: Any, points: random.Random) -> bool:
    """Return whether two expressions differ, as far as their values at random points can tell.

    Only those whose values agree are given to computer algebra, which is slow on others: it multiplies `(x+1)^{999}`
    out, and for `\\log 2 - 1000000` computes 10 to the power of a million. A letter stands for the same number whatever
    its case, as in math-verify.
    """
    both = (found, wanted)
    if all(isinstance(each, sympy.MatrixBase) for each in both):
        return found.shape != wanted.shape or any(_differ(*pair, points) for pair in zip(found, wanted, strict=True))
    if all(isinstance(each, sympy.Equality) for each in both) and found.lhs == wanted.lhs and found.lhs.is_Symbol:
        return _differ(found.rhs, wanted.rhs, points)
    if not all(isinstance(each, sympy.Expr) for each in both):
        return _power(found) > max(_power(wanted), _HIGH)  # to multiply it out would take for ever
    if all(each.is_Symbol for each in both):
        return False
    symbols = sorted({symbol for each in both for symbol in each.free_symbols}, key=str)
    return any(_differ_once(found, wanted, symbols, points) for _ in range(_POINTS if symbols else 1))


def _differ_once(found: Any, wanted: Any, symbols: list[Any], points: random.Random) -> bool:
    drawn = {name: points.uniform(0.2, 0.9) for name in sorted({symbol.name.lower() for symbol in symbols})}
    point = {symbol: sympy.Float(drawn[symbol.name.lower()], _DIGITS) for symbol in symbols}
    is_rounded = found.has(sympy.Float) or wanted.has(sympy.Float)
    same = _ROUNDED if is_rounded else sympy.Float(10, _DIGITS) ** -LONGEST_ANSWER
    try:
        one, other = (each.subs(point).evalf(_DIGITS) for each in (found, wanted))
        return bool(abs(one - other) > same * (1 + abs(other)))
    except (TypeError, ValueError, ArithmeticError):  # the difference is no number, as of an infinity and another
        return False


def _power(expression: Any) -> int:
    """Return the highest whole exponent in an expression, without its sign; 0 where there is none."""
    return max((abs(int(p.exp)) for p in expression.atoms(sympy.Pow) if p.exp.is_Integer), default=0)
