"""Parses answers in LaTeX into expressions of sympy, by math-verify, and brings these into one form to compare them.

math-verify bounds its time with signals, which only work in the main thread, and rewards run in another. So its time
limits are off here, and `may_be_parsed` bounds what it sees instead.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sympy
from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse

from rlft.graders.expansion import has_power_of_matrix
from rlft.graders.latex import may_be_parsed

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
