"""Reads one exact number from the notations that people and models use for an answer."""

from __future__ import annotations

import re
from fractions import Fraction

LONGEST_NUMBER = 64
"""The most characters that a declared number may have with its currency and unit; longer ones are not read."""

_MINUS = str.maketrans({"\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2013": "-", "\uff0d": "-"})
_SPACES = re.compile(r"[\u00a0\u2007\u2009\u202f\t ]+")
_ZEROS = re.compile(r"^([+-]?[$€£¥]?)0+(?=[0-9])")
_INVISIBLE = re.compile(r"[\u200b\u200c\u200d\u2060\ufeff]")
_VULGAR = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5", "⅘": "4/5",
    "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip
_LATEX = (
    (re.compile(r"\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}"), r" \1/\2"),
    (re.compile(r"\\(?:text|mathrm)\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[,!;: ]"), ""),
    (re.compile(r"\\([$%])"), r"\1"),
)
_NUMBER = re.compile(
    r"""
    (?P<sign>[+-]?) [$€£¥]? (?P<late_sign>-?)
    (?: (?P<mixed>[0-9]+[ ])? (?P<over>[0-9]+) [ ]? [/\u2044] [ ]? (?P<under>[0-9]+)
      | (?P<whole>[1-9][0-9]{0,2}(?:,[0-9]{3})+ | [0-9]+)? (?P<decimals>\.[0-9]+)?
    )
    (?P<after>.*)
    """,
    re.VERBOSE,
)
_NUMBER_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred hundreds thousand thousands "
    "million millions billion billions trillion trillions quadrillion quadrillions k bn lakh lakhs crore crores tens "
    "dozen dozens gross score half halves quarter quarters third thirds fourth fourths fifth fifths sixth sixths "
    "seventh sevenths eighth eighths ninth ninths tenth tenths hundredth hundredths thousandth thousandths millionth "
    "millionths halved doubles doubled tripled quadrupled twice thrice squared cubed factorial plus minus times x over "
    "or and not pi π tsd tausend mio million millionen mrd milliarde milliarden"
)
_NOT_A_UNIT = frozenset(_NUMBER_WORDS.split())  # words after a number that change its value
_SHORT_MILLIONS = ("M", "B")  # 5M is no 5, and m is a metre
_LONGEST_UNIT = 6  # words


def parse_number(text: str) -> Fraction | None:
    """Return the exact value of a text that is one number and nothing else, or `None`.

    Read are whole numbers and decimals with or without thousands commas, fractions (`1/2`, `1 1/2`, `½`,
    `\\frac{1}{2}`), a sign (U+2212 and hyphens too), a currency sign, `%` (50% is 50), a unit of a few words
    ("18 eggs per day"), and a full stop at the end. Units and currencies are not compared with anything.

    Not read are several numbers ("3, 4", "1 or 2", "3-4", "5 + 6", "18 dollars and 20 cents"), commas in the wrong
    place ("1,00"), number words and multipliers ("18 thousand", "5M"), powers of ten ("1e3"), and anything longer than
    `LONGEST_NUMBER`: nothing here takes longer than the text is long.
    """
    if len(text) > LONGEST_NUMBER:
        return None
    match = _NUMBER.fullmatch(tidy(text))
    if match is None or not is_unit(match["after"]) or (match["sign"] and match["late_sign"]):
        return None
    magnitude = _magnitude(match)
    if magnitude is None:
        return None
    return -magnitude if "-" in (match["sign"], match["late_sign"]) else magnitude


def shortened(text: str) -> str:
    """Return a text, without zeros before a number, as far as it may be one: what follows would only hide it."""
    return _ZEROS.sub(r"\1", text.strip())[:LONGEST_NUMBER]


def format_number(value: Fraction) -> str:
    """Return a value as a whole number or a fraction in lowest terms: the same text for the same number."""
    return str(value)


def tidy(text: str) -> str:
    """Return the text with ordinary spaces, minus signs and fractions, without emphasis, LaTeX and a full stop."""
    text = _INVISIBLE.sub("", text).translate(_MINUS)
    for pattern, replacement in _LATEX:
        text = pattern.sub(replacement, text)
    for sign, written in _VULGAR.items():
        text = text.replace(sign, f" {written}")
    text = _SPACES.sub(" ", text).strip(" *`")
    text = re.sub(r"^([+-]?[$€£¥]?) ", r"\1", text)
    return text.removesuffix(".").rstrip(" *`")


def _magnitude(match: re.Match[str]) -> Fraction | None:
    if match["under"] is not None:
        if int(match["under"]) == 0:
            return None
        return int(match["mixed"] or 0) + Fraction(int(match["over"]), int(match["under"]))
    if match["whole"] is None and match["decimals"] is None:
        return None
    return Fraction((match["whole"] or "0").replace(",", "") + (match["decimals"] or ""))


def is_unit(after: str) -> bool:
    """Return whether what follows a number leaves its value as it is: `%`, `kg`, ` square feet`, `/hour`."""
    words = re.sub(r"^ ?[%¢$€£¥°]", "", after).split()
    if words and words[0] in _SHORT_MILLIONS:
        return False
    parts = [part for word in words for part in re.split(r"[/'\u2019.-]", word.removeprefix("/").removesuffix("."))]
    letters = [re.sub(r"(?<=[^\W\d])[²³]$", "", part) for part in parts]
    return (
        len(words) <= _LONGEST_UNIT
        and all(map(str.isalpha, letters))
        and _NOT_A_UNIT.isdisjoint(map(str.lower, letters))
    )
