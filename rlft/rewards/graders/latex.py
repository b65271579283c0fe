"""Reads answers in LaTeX: the one that is boxed, the number that it is, and whether it may be parsed at all.

math-verify and sympy, which parse and compare expressions, have no bound on their time. So texts are bounded before
they see them; a power tower, say, is never computed.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

LONGEST_ANSWER = 200
"""The most characters that an answer may have."""
LARGEST_EXPONENT = 1000
"""The largest product that the numbers in all exponents of an answer may have."""
DEEPEST = 6
"""How deep brackets of any kind may be nested in an answer: the parser's time doubles with each level."""
_MOST_BARS = 8  # of absolute values; the parser has to try which of them open and which close
_MOST_DIGITS = 40  # of one number
_FUNCTIONS = "sin cos tan sec csc cot arcsin arccos arctan sinh cosh tanh coth ln log exp"
_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi "
    "omega Delta Theta Lambda Xi Sigma Phi Psi Omega"
)
GREEK = _GREEK.split()
"""The Greek letters that are read. A capital pi and gamma are not, which the parser takes for numbers."""
_LETTERS = (*GREEK, "ell", "hbar", "infty", "emptyset", "varnothing")
_SIGNS = (
    "binom",
    "lfloor",
    "rfloor",
    "lceil",
    "rceil",
    "frac",
    "dfrac",
    "tfrac",
    "sqrt",
    "cdot",
    "times",
    "div",
    "pm",
    "circ",
    "cup",
    "cap",
    "setminus",
    "in",
)
_RELATIONS = ("le", "leq", "ge", "geq", "lt", "gt", "ne", "neq")
_LAYOUT = ("left", "right", "text", "mathrm", "mathbf", "mathbb", "begin", "end", "quad")
_COMMANDS = frozenset({*_FUNCTIONS.split(), *_LETTERS, *_SIGNS, *_RELATIONS, *_LAYOUT})
_ALLOWED = re.compile(r"[A-Za-z0-9\s\\{}()\[\]+\-*/^=<>,.;:|&%$_!]*")
_SMALL_FACTORIAL = re.compile(
    r"(?:(?<![0-9.])(?:1?[0-9]|20)|(?<![A-Za-z])[a-z]|\([a-z][+-](?:[0-9]{1,2}|[a-z])\))!(?!!)"
)
_SMALL_BINOMIAL = re.compile(r"\\binom\{[a-z]?[+-]?[0-9]{0,2}\}\{[a-z]?[+-]?[0-9]{0,2}\}")
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_POWER = re.compile(r"\^|\*\*|\\exp")
_TOWER = re.compile(r"[^A-Za-z](?:\^|\*\*)|\\exp|(?:\^|\*\*).*(?:\^|\*\*)", re.DOTALL)
_DIGITS = re.compile(r"[0-9]+")
_POWER_OF_TEN = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<times>[0-9]+(?:\.[0-9]+)?)(?:\\cdot|\\times|\*))?10\^(?:\{(?P<group>-?[0-9]{1,2})\}|(?P<one>[0-9]))"
)
_FRACTION = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)\\[dt]?frac(?:(?P<a>[0-9])(?P<b>[0-9])|\{(?P<over>-?[0-9]+)\}\{(?P<under>-?[0-9]+)\})"
)


def boxed_answer(text: str) -> str | None:
    r"""Return what stands in the one `\boxed{...}` of a text; `None` if it has none, two, or one that is not closed."""
    boxes = list(re.finditer(r"\\boxed\s*\{", text))
    return up_to_closing_brace(text[boxes[0].end() :]) if len(boxes) == 1 else None


def up_to_closing_brace(text: str) -> str | None:
    """Return the text before the brace that closes one opened just before `text`; `None` if none does."""
    depth = 1
    for position, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return text[:position]
    return None


def latex_number(text: str) -> Fraction | None:
    r"""Return the exact value of a number in LaTeX, or `None` if the text is anything else.

    Read are fractions (`\frac12`, `-\dfrac{1}{2}`, `1\frac{1}{2}`) and powers of ten (`1.5\cdot10^3`,
    `2\times 10^{-4}`, `10^6`, two digits of exponent at most). Sums, products and other powers are calculations, not
    numbers.
    """
    if len(text) > LONGEST_ANSWER:
        return None
    plain = re.sub(r"\s+", "", text.strip().removesuffix(".").strip("$"))
    if match := _FRACTION.fullmatch(plain):
        over, under = int(match["over"] or match["a"]), int(match["under"] or match["b"])
        is_plain = under != 0 if not match["whole"] else 0 < over < under  # 5\frac{7}{3} may be meant as a product
        value = int(match["whole"] or 0) + Fraction(over, under) if is_plain else None
    elif match := _POWER_OF_TEN.fullmatch(plain):
        value = Fraction(match["times"] or 1) * Fraction(10) ** int(match["group"] or match["one"])
    else:
        return None
    return -value if value is not None and match["sign"] == "-" else value


def may_be_parsed(text: str) -> bool:
    """Return whether an answer is short, flat, of known commands, and without numbers that take long to compute.

    At most `DEEPEST` groups stand within each other (`(((x)))` is three deep, `[0, 1)` one), and four absolute values
    in all. In an exponent, the base of a further exponent must be a letter, and that is as deep as it goes: `e^{-x^2}`
    is read, `2^{10^9}` is not. The product of all numbers in exponents is at most `LARGEST_EXPONENT`, as in
    `(2^{99})^{9}`. Factorials are of letters and of numbers up to 20, binomials of letters and two digits; neither
    stands in an exponent.
    """
    if len(text) > LONGEST_ANSWER or not _ALLOWED.fullmatch(text) or not set(_COMMAND.findall(text)) <= _COMMANDS:
        return False
    if _depth(text) > DEEPEST or text.count("|") > _MOST_BARS:
        return False
    if any(len(digits) > _MOST_DIGITS for digits in _DIGITS.findall(text)):
        return False
    if "!" in _SMALL_FACTORIAL.sub("", text) or r"\binom" in _SMALL_BINOMIAL.sub("", text):
        return False
    exponents = [_argument(text[match.end() :]) for match in _POWER.finditer(text)]
    if any("!" in exponent or r"\binom" in exponent or _TOWER.search(exponent) for exponent in exponents):
        return False
    numbers = (max(int(digits), 1) for exponent in exponents for digits in _DIGITS.findall(exponent))
    return math.prod(numbers) <= LARGEST_EXPONENT


def _depth(text: str) -> int:
    """Return the most groups open at once; which bracket closes which does not matter, as in `[0, 1)`."""
    depth = deepest = 0
    for character in text:
        depth = max(depth + (character in "([{") - (character in ")]}"), 0)
        deepest = max(deepest, depth)
    return deepest


def _argument(rest: str) -> str:
    """Return the longest text that can be the exponent: its braces, else all up to a space, operator or group's end."""
    rest = rest.lstrip()
    if rest.startswith("{"):
        return up_to_closing_brace(rest[1:]) or rest
    reach = rest[:1] + re.split(r"[\s+\-=,;<>&]", rest[1:], maxsplit=1)[0]
    depth = 0
    for position, character in enumerate(reach):
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            return reach[:position]
    return reach
