"""Answers in LaTeX: which may be parsed at all, and whether one equals the gold answer (by math-verify and sympy).

math-verify bounds its time with signals, which work in the main thread alone, and rewards run in another. So its time
limits are off here, and texts are bounded before it sees them instead: a power tower is never computed.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

LONGEST_ANSWER = 200
"""Characters an answer may have."""
LARGEST_EXPONENT = 1000
"""What the numbers in all exponents of an answer may come to when multiplied."""
_MOST_DIGITS = 40
_FUNCTIONS = ("sin", "cos", "tan", "sec", "csc", "cot", "arcsin", "arccos", "arctan", "ln", "log", "exp")
_LETTERS = ("alpha", "beta", "gamma", "lambda", "mu", "phi", "omega", "theta", "pi", "infty", "emptyset", "varnothing")
_SIGNS = ("frac", "dfrac", "tfrac", "sqrt", "cdot", "times", "div", "pm", "circ", "cup", "cap", "setminus", "in")
_RELATIONS = ("le", "leq", "ge", "geq", "lt", "gt", "ne", "neq")
_LAYOUT = ("left", "right", "text", "mathrm", "mathbf", "mathbb", "begin", "end", "quad")
_COMMANDS = frozenset({*_FUNCTIONS, *_LETTERS, *_SIGNS, *_RELATIONS, *_LAYOUT})
_ALLOWED = re.compile(r"[A-Za-z0-9\s\\{}()\[\]+\-*/^=<>,.;:|&%$_]*")  # no `!`: a factorial is soon too large
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_POWER = re.compile(r"\^|\*\*|\\exp")
_TOWER = re.compile(r"[^A-Za-z](?:\^|\*\*)|\\exp|(?:\^|\*\*).*(?:\^|\*\*)", re.DOTALL)
_POINT, _SAME = 0.3717, 1e-3  # where expressions are compared, and how much of their size may be rounding
_HIGH = 30  # exponents that a relation or a set may have beyond its gold's
_DIGITS = re.compile(r"[0-9]+")
_POWER_OF_TEN = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<times>[0-9]+(?:\.[0-9]+)?)(?:\\cdot|\\times|\*))?10\^(?:\{(?P<group>-?[0-9]{1,2})\}|(?P<one>[0-9]))"
)
_FRACTION = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)\\[dt]?frac(?:(?P<a>[0-9])(?P<b>[0-9])|\{(?P<over>[0-9]+)\}\{(?P<under>[0-9]+)\})"
)


def boxed_answer(text: str) -> str | None:
    r"""What stands in the one `\boxed{...}` of a text; `None` where there is none, another one, or no closing brace."""
    boxes = list(re.finditer(r"\\boxed\s*\{", text))
    return up_to_closing_brace(text[boxes[0].end() :]) if len(boxes) == 1 else None


def up_to_closing_brace(text: str) -> str | None:
    """The text before the brace that closes an open one; `None` if none does."""
    depth = 1
    for position, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return text[:position]
    return None


def latex_number(text: str) -> Fraction | None:
    r"""The exact value of a number in LaTeX, or `None` if the text is anything else.

    Fractions (`\frac12`, `-\dfrac{1}{2}`, `1\frac{1}{2}`) and powers of ten (`1.5\cdot10^3`, `2\times 10^{-4}`, `10^6`,
    two digits of exponent at most). Sums, products and other powers are calculations, not numbers.
    """
    if len(text) > LONGEST_ANSWER:
        return None
    plain = re.sub(r"\s+", "", text.strip().removesuffix(".").strip("$"))
    if match := _FRACTION.fullmatch(plain):
        over, under = int(match["over"] or match["a"]), int(match["under"] or match["b"])
        is_plain = under > 0 if not match["whole"] else 0 < over < under  # 5\frac{7}{3} may be meant as a product
        value = int(match["whole"] or 0) + Fraction(over, under) if is_plain else None
    elif match := _POWER_OF_TEN.fullmatch(plain):
        value = Fraction(match["times"] or 1) * Fraction(10) ** int(match["group"] or match["one"])
    else:
        return None
    return -value if value is not None and match["sign"] == "-" else value


def may_be_parsed(text: str) -> bool:
    """Whether an answer is short, of known commands, and without numbers that take long to compute.

    In an exponent, the base of a further exponent must be a letter, and that is as deep as it goes: `e^{-x^2}` is read,
    `2^{10^9}` is not. The product of all numbers in exponents is at most `LARGEST_EXPONENT`, as in `(2^{99})^{9}`.
    """
    if len(text) > LONGEST_ANSWER or not _ALLOWED.fullmatch(text) or not set(_COMMAND.findall(text)) <= _COMMANDS:
        return False
    if any(len(digits) > _MOST_DIGITS for digits in _DIGITS.findall(text)):
        return False
    exponents = [_argument(text[match.end() :]) for match in _POWER.finditer(text)]
    if any(_TOWER.search(exponent) for exponent in exponents):
        return False
    numbers = (max(int(digits), 1) for exponent in exponents for digits in _DIGITS.findall(exponent))
    return math.prod(numbers) <= LARGEST_EXPONENT


def _argument(rest: str) -> str:
    """What an exponent may reach to: its braces, else all that follows up to the next space or operator."""
    rest = rest.lstrip()
    if rest.startswith("{"):
        return up_to_closing_brace(rest[1:]) or rest
    return rest[:1] + re.split(r"[\s+\-=,;<>&]", rest[1:], maxsplit=1)[0]


def same_answer(gold: str, answer: str) -> bool:
    r"""Whether an answer in LaTeX is the gold one, by math-verify's symbolic comparison, and as finished as it is.

    Beyond being equal, an answer must be of the gold's kind (a set is no number, `x = 1 or 2` is not 2; `x = 2` is),
    have no functions that the gold has not (`\arcsin(1/2)` is not `\pi/6`), no decimals for an irrational number, and
    no more than two operations more than the gold. Raises `ValueError` for a gold answer that cannot be read.
    """
    from math_verify import verify

    wanted = _parse(gold)
    if wanted is None:
        raise ValueError(f"the task's answer {gold!r} cannot be read as one LaTeX expression")
    found = _parse(answer)
    if found is None or _kind(found) != _kind(wanted) or not _is_finished(found, wanted) or _differ(found, wanted):
        return False
    with _without_warnings("math_verify.grader"):
        return bool(verify(wanted, found, timeout_seconds=None))


def _parse(text: str) -> Any:
    """The expression as sympy has it; `None` for what may not or cannot be parsed."""
    from math_verify import LatexExtractionConfig, parse

    if not may_be_parsed(text):
        return None
    config = [LatexExtractionConfig(boxed_match_priority=0, try_extract_without_anchor=False)]
    boxed = f"\\boxed{{{text.strip().strip('$')}}}"
    with _without_warnings("math_verify.parser"):
        found = parse(boxed, config, "no_fallback", "first_match", parsing_timeout=0)  # 0: none
    return found[0] if found else None


def _kind(expression: Any) -> str:
    import sympy

    if isinstance(expression, sympy.Equality) and (expression.lhs.is_Symbol or expression.rhs.is_Symbol):
        expression = expression.rhs if expression.lhs.is_Symbol else expression.lhs
    if isinstance(expression, sympy.Interval | sympy.Tuple):
        return "ordered"  # (1, 2) may be either
    kinds = {"set": sympy.Set, "matrix": sympy.MatrixBase, "relation": sympy.logic.boolalg.Boolean}
    return next((kind for kind, types in kinds.items() if isinstance(expression, types)), "value")


def _is_finished(found: Any, wanted: Any) -> bool:
    import sympy

    if _kind(wanted) == "matrix":
        return True
    if not {f.func for f in found.atoms(sympy.Function)} <= {f.func for f in wanted.atoms(sympy.Function)}:
        return False
    is_rounded = found.has(sympy.Float) and not wanted.has(sympy.Float) and not wanted.free_symbols
    return not is_rounded and sympy.count_ops(found) <= sympy.count_ops(wanted) + 2


def _differ(found: Any, wanted: Any) -> bool:
    """Whether two expressions have other values at a point, as far as numbers can tell.

    Computer algebra is for those that have the same: it multiplies `(x+1)^{999}` out, and for `\\log 2 - 1000000` makes
    10 to the power of a million. Letters stand for the same number whatever their case, as in math-verify.
    """
    import sympy

    both = (found, wanted)
    if all(isinstance(each, sympy.MatrixBase) for each in both):
        return found.shape != wanted.shape or any(map(_differ, found, wanted))
    if all(isinstance(each, sympy.Equality) for each in both) and found.lhs == wanted.lhs and found.lhs.is_Symbol:
        return _differ(found.rhs, wanted.rhs)
    if not all(isinstance(each, sympy.Expr) for each in both):
        return _power(found) > max(_power(wanted), _HIGH)  # multiplied out it has no end
    if all(each.is_Symbol for each in both):
        return False
    symbols = {symbol for each in both for symbol in each.free_symbols}
    names = sorted({symbol.name.lower() for symbol in symbols})
    point = {symbol: sympy.Float(_POINT + names.index(symbol.name.lower()) / 7) for symbol in symbols}
    try:
        one, other = (each.subs(point).evalf() for each in both)
        return bool(abs(one - other) > _SAME * (1 + abs(other)))
    except (TypeError, ValueError, ArithmeticError):  # no number, such as an infinity less another
        return False


def _power(expression: Any) -> int:
    """The highest whole exponent in an expression; 0 where there is none."""
    import sympy

    return max((abs(int(p.exp)) for p in expression.atoms(sympy.Pow) if p.exp.is_Integer), default=0)


@contextmanager
def _without_warnings(logger: str) -> Iterator[None]:
    """Keep math-verify from saying, once per process, that its time limits are off."""
    log = logging.getLogger(logger)
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
