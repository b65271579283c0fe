"""Decides whether an answer in LaTeX is the gold answer, by math-verify and sympy.

math-verify bounds its time with signals, which only work in the main thread, and rewards run in another. So its time
limits are off here: answers are bounded before they are parsed (`may_be_parsed`), and only expressions that agree in
kind and in value at random points are compared symbolically. Nor has sympy a bound on multiplying out, which it does to
simplify (`(x+y+z)^{99}` has 5050 terms): `terms` bounds how many there are, without multiplying out.
"""

from __future__ import annotations

import logging
import math
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import sympy
from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify

from rlft.rewards.graders.latex import (
    LONGEST_ANSWER,
    capital_names,
    may_be_parsed,
    named_value,
    plain_latex,
    same_words,
    without_unit,
    words_of,
)

MOST_TERMS = 300
"""The most terms that an answer may have when multiplied out, unless its gold answer has more."""
_NO_END = 10**9  # terms: larger counts are cut off here, so that the count itself stays a small number


def terms(expression: Any) -> int:
    """Return an upper bound, at least 1, of the terms that any part of a sympy expression has when multiplied out.

    A sum of `t` terms to the power of `n` has `C(n + t - 1, n)`. Fractions that are added are counted over one
    denominator. In an exponent with letters the largest number counts, as `(x+1)^{n+30}` is `(x+1)^n (x+1)^{30}`.
    """
    return max(_fraction(expression))


def has_power_of_matrix(expression: Any) -> bool:
    """Return whether a power, a root or a function of a matrix stands in an expression: computing it may never end."""
    powers = (sympy.Pow, sympy.Function)  # e to the power of something is a function to sympy
    kinds = (sympy.MatrixBase, sympy.MatrixExpr)
    return any(
        isinstance(inside, kinds)
        for each in sympy.preorder_traversal(expression)
        if isinstance(each, powers)
        for inside in sympy.preorder_traversal(each)
    )


def _fraction(expression: Any) -> tuple[int, int]:
    """Return the bounds of the terms of numerator and denominator."""
    if isinstance(expression, sympy.MatrixBase):
        return max(map(terms, expression.flat()), default=1), 1
    parts = [_fraction(each) for each in getattr(expression, "args", ())]
    if isinstance(expression, sympy.Add):
        under = math.prod(below for _, below in parts)
        return min(sum(above * (under // below) for above, below in parts), _NO_END), min(under, _NO_END)
    if isinstance(expression, sympy.Mul):
        return min(math.prod(above for above, _ in parts), _NO_END), min(math.prod(b for _, b in parts), _NO_END)
    if isinstance(expression, sympy.Pow):
        (above, below), inside = parts[0], max(parts[1])
        times = _largest_number(expression.exp)
        above, below = max(_power(above, times), inside), _power(below, times)
        return (below, above) if expression.exp.could_extract_minus_sign() else (above, below)
    return max((max(part) for part in parts), default=1), 1


def _power(count: int, times: int) -> int:
    """Return the terms of a sum of `count` terms to the power of `times`, at most `_NO_END`."""
    return min(math.comb(times + count - 1, times), _NO_END) if count < _NO_END else _NO_END


def _largest_number(exponent: Any) -> int:
    """Return the largest number in an exponent, rounded up and without its sign; 1 if there is none."""
    return max((math.ceil(abs(each)) for each in exponent.atoms(sympy.Number) if each.is_finite), default=1)


_EITHER = re.compile(r"\bor\b")
_LONG_DECIMAL = re.compile(r"[0-9]*\.[0-9]{13,}")


def parse_latex(text: str) -> Any:
    """Return a text as an expression of sympy; `None` for what may not or cannot be parsed."""
    text = text.replace("°", r"^\circ ")
    if not may_be_parsed(text):
        return None
    # Without units: math-verify would read the t of 3t as one.
    normal = NormalizationConfig(basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="all")
    config = [LatexExtractionConfig(False, 0, normal)]
    with without_warnings("math_verify.parser"):
        found = parse(f"\\boxed{{{text}}}", config, "no_fallback", "first_match", parsing_timeout=0)  # 0: no limit
    return found[0] if found and not has_power_of_matrix(found[0]) else None


def uniform(expression: Any, text: str) -> Any:
    """Return the expression with real letters, the imaginary unit for i, and an interval for an inequality.

    Decimals become exact numbers unless `text`, which it was parsed from, has a long one, which may be rounded.
    """
    symbols = {each: sympy.Symbol(each.name, real=True) for each in expression.free_symbols}
    symbols |= {each: sympy.I for each in symbols if each.name == "i"}
    decimals = {} if _LONG_DECIMAL.search(text) else {f: sympy.Rational(str(f)) for f in expression.atoms(sympy.Float)}
    return _as_interval(expression.xreplace(symbols | decimals), text)


def _as_interval(expression: Any, text: str) -> Any:
    """Return the numbers for which `x > 3`, `1 < x < 2` or `x < 1 or x > 2` is true, as a set; all else as it is."""
    is_either = isinstance(expression, sympy.FiniteSet) and _EITHER.search(text) is not None
    relations = expression.args if is_either or isinstance(expression, sympy.And) else (expression,)
    letters = {letter for relation in relations for letter in relation.free_symbols}
    intervals = [_half_line(relation) for relation in relations]
    if None in intervals or len(letters) > 1:
        return expression
    return sympy.Union(*intervals) if is_either else sympy.Intersection(*intervals)


def _half_line(relation: Any) -> Any:
    """Return the interval for which an inequality between a letter and a number is true; `None` for anything else."""
    if not isinstance(relation, sympy.core.relational._Inequality):
        return None
    relation = relation.reversed if relation.rhs.is_Symbol else relation
    end = relation.rhs
    if not relation.lhs.is_Symbol or end.is_extended_real is not True or end.free_symbols:
        return None
    if isinstance(relation, sympy.Lt | sympy.Le):
        return sympy.Interval(-sympy.oo, end, True, isinstance(relation, sympy.Lt))
    return sympy.Interval(end, sympy.oo, isinstance(relation, sympy.Gt), True)


@contextmanager
def without_warnings(logger: str) -> Iterator[None]:
    """Silence a logger: math-verify warns, once per process, that its time limits are off."""
    log = logging.getLogger(logger)
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


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
        return _highest_power(found) > max(_highest_power(wanted), _HIGH)  # to multiply it out would take for ever
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


def _highest_power(expression: Any) -> int:
    """Return the highest whole exponent in an expression, without its sign; 0 where there is none."""
    return max((abs(int(p.exp)) for p in expression.atoms(sympy.Pow) if p.exp.is_Integer), default=0)
