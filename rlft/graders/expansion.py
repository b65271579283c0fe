"""Bounds how many terms an expression has when it is multiplied out, without multiplying it out.

sympy multiplies out to simplify, and has no bound of its own: `(x+y+z)^{99}` has 5050 terms.
"""

from __future__ import annotations

import math
from typing import Any

import sympy

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
