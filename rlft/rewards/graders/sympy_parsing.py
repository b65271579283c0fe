"""Parses answers in LaTeX into expressions of sympy, by math-verify, and brings these into one form to compare them.

math-verify bounds its time with signals, which only work in the main thread, and rewards run in another. So its time
limits are off here, and `may_be_parsed` bounds what it sees instead. Nor has sympy a bound on multiplying out, which it
does to simplify (`(x+y+z)^{99}` has 5050 terms): `terms` bounds how many there are, without multiplying out.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sympy
from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse

from rlft.rewards.graders.latex import may_be_parsed

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
