"""Reads one exact number, or one whole date, from the notations that people and models use for an answer."""

from __future__ import annotations

import re
import unicodedata
from datetime import date, datetime
from fractions import Fraction
from typing import Literal

from dateutil import parser

from rlft.texts.characters import nfkc

Decimal = Literal["point", "comma"]
"""What stands before the decimals of a number."""
LONGEST_NUMBER = 64
"""The most characters that a declared number may have with its currency and unit; longer ones are not read."""

_SIGNS = str.maketrans({
    "\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2013": "-", "\uff0d": "-", "\uff0b": "+", "\uff0e": ".",
    "\u066b": ".", "\uff0c": ",", "\u066c": ",", "\uff0f": "/", "\uff05": "%", "\u066a": "%", "\uff04": "$",
    "\uffe5": "¥",
})  # fmt: skip
_OTHER_DIGIT = re.compile(r"[^\W0-9]")  # or a letter
_SPACES = re.compile(r"[\u00a0\u2000-\u200a\u202f\u3000\t ]+")
_INVISIBLE = re.compile(r"[\u200b\u200c\u200d\u2060\ufeff]")
_VULGAR = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5", "⅘": "4/5",
    "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip
_LATEX = (
    (re.compile(r"\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}"), r" \1/\2"),
    (re.compile(r"\\(?:text(?:bf|it|rm|sf|tt)?|math(?:rm|bf|it|sf))\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[,!;: ]"), ""),
    (re.compile(r"\\([$%])"), r"\1"),
    (re.compile(r"\\boxed\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\\[()\[\]]|\$\$"), " "),
)
_NUMBER = re.compile(
    r"""
    (?P<sign>[+-]?) [$€£¥]? (?P<late_sign>-?)
    (?: (?P<mixed>[0-9]+[ ])? (?P<over>[0-9]+) [ ]? [/\u2044] [ ]? (?P<under>[0-9]+)
      | (?P<whole>[1-9][0-9]{0,2}(?P<by>[,\ ])[0-9]{3}(?:(?P=by)[0-9]{3})* | [0-9]+)? (?P<decimals>\.[0-9]+)?
    )
    (?P<after>.*)
    """,
    re.VERBOSE,
)
_POWER = re.compile(
    r"(?P<number>[+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?)"
    r"(?:[eE](?P<e>[+-]?[0-9]{1,2})|\s*(?:[x\u00d7*\u00b7]|\\times)\s*10\s*\^\s*\{?(?P<ten>[+\u2212-]?[0-9]{1,2})\}?)(?P<after>\D*)"
)
_SEPARATOR = re.compile(r"[.,](?=[0-9])")
_ORDINAL = re.compile(r"(?:st|nd|rd|th)s?\b", re.IGNORECASE)
_ENDS = ("", "th", "ths")
_TEENS = " ".join(f"{ten}teen{end}" for ten in ("thir", "four", "fif", "six", "seven", "eigh", "nine") for end in _ENDS)
_TENS = " ".join(
    f"{ten}{end}"
    for ten in ("twen", "thir", "for", "fif", "six", "seven", "eigh", "nine")
    for end in ("ty", "tieth", "tieths")
)
_NUMBER_WORDS = (
    f"{_TEENS} {_TENS} zero one two three four five six seven eight nine ten eleven twelve hundred hundreds thousand "
    "thousands million millions billion billions trillion trillions quadrillion quadrillions k bn mn mil mill bil mln "
    "grand thou lakh lakhs crore crores tens dozen dozens gross score half halves quarter quarters third thirds fourth "
    "fourths fifth fifths sixth sixths seventh sevenths eighth eighths ninth ninths tenth tenths eleventh elevenths "
    "twelfth twelfths hundredth hundredths thousandth thousandths millionth millionths billionth billionths halved "
    "doubles doubled tripled quadrupled twice thrice squared cubed factorial plus minus times x over or and not less "
    "fewer pi π tn trn tril doz "
    # of other languages: numbers first, then what multiplies
    "null ein eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf hundert halbe drittel viertel fünftel "
    "achtel zehntel und oder deux trois quatre cinq sept huit neuf dix onze douze vingt trente quarante cinquante "
    "soixante ou et dos tres cuatro cinco seis siete ocho nueve diez veinte treinta cuarenta cincuenta cien "
    "tsd tausend mio million millionen mrd milliarde milliarden mille millier milliers milliard milliards "
    "millón millones mila milione milioni miliardo miliardi milhão milhões bilhão bilhões duizend miljoen miljard "
    "tusen miljon miljoner miljarder tys mld milion miliony milionów тыс тысяча тысячи тысяч млн миллион миллиона "
    "миллионов млрд миллиард миллиарда миллиардов milyon milyar ribu juta miliar nghìn triệu tỷ ألف آلاف مليون "
    "dutzend douzaine douzaines docena docenas ملايين مليار"
)
_NOT_A_UNIT = frozenset(_NUMBER_WORDS.split())  # words after a number that change its value
_COMPOUND = re.compile(r".*(?:zig|ßig|zehn|hundert|tausend)|[十百万萬亿億兆만천백억]+.*|千(?![克米瓦卡]).*")
_SHORT_MILLIONS = ("M", "B")  # 5M is no 5, and m is a metre
_LONGEST_UNIT = 6  # words


def parse_number(text: str) -> Fraction | None:
    """Return the exact value of a text that is one number and nothing else, or `None`.

    Read are whole numbers and decimals with or without thousands commas or spaces, in digits of any script and width,
    fractions (`1/2`, `1 1/2`, `½`, `\\frac{1}{2}`), a sign (U+2212 and hyphens too), a currency sign, `%` (50% is 50),
    a unit of a few words ("18 eggs per day", "42 m^2"), LaTeX's signs around it, and a full stop at the end. Units and
    currencies are not compared with anything.

    Not read are several numbers ("3, 4", "1 or 2", "3-4", "5 + 6", "18 dollars and 20 cents"), commas in the wrong
    place ("1,00"), number words and multipliers ("18 thousand", "5M", "5 mil", "18 less"), ordinals ("42nd"), powers of
    ten ("1e3"), what may mean another number ("18!", and "(42)", which is -42 in accounts), and anything longer than
    `LONGEST_NUMBER`: nothing here takes longer than the text is long.
    """
    if len(text) > LONGEST_NUMBER:
        return None
    match = _NUMBER.fullmatch(tidy(text))
    if match is None or not is_unit(match["after"]) or (match["sign"] and match["late_sign"]):
        return None
    if match["under"] is None and _ORDINAL.match(match["after"]):
        return None
    magnitude = _magnitude(match)
    if magnitude is None:
        return None
    return -magnitude if "-" in (match["sign"], match["late_sign"]) else magnitude


def read_number(text: str, decimal: Decimal = "point") -> Fraction | None:
    """Return the number that a text is as `parse_number` does, and read powers of ten ("3e3", "3 x 10^3"), too.

    With `comma` decimals stand behind one: "1.234,5" is 1234.5.
    """
    if len(text) > LONGEST_NUMBER:
        return None
    text = tidy(text)
    if decimal == "comma":
        text = _SEPARATOR.sub(lambda sign: "," if sign[0] == "." else ".", text)
    if not (power := _POWER.fullmatch(text)):
        return parse_number(text)
    exponent = int((power["e"] or power["ten"]).replace("\u2212", "-"))
    return Fraction(power["number"]) * Fraction(10) ** exponent if is_unit(power["after"]) else None


def format_number(value: Fraction) -> str:
    """Return a value as a whole number or a fraction in lowest terms: the same text for the same number."""
    return str(value)


def tidy(text: str) -> str:
    """Return the text with ordinary digits, spaces, signs and fractions, without emphasis, LaTeX and a full stop."""
    text = _OTHER_DIGIT.sub(lambda sign: str(unicodedata.decimal(sign[0], sign[0])), _INVISIBLE.sub("", text))
    text = text.translate(_SIGNS)
    for pattern, replacement in _LATEX:
        text = pattern.sub(replacement, text)
    for sign, written in _VULGAR.items():
        text = text.replace(sign, f" {written}")
    text = _SPACES.sub(" ", text).strip(" *`").removesuffix(".").removesuffix("\u3002").rstrip(" *`")
    text = re.sub(r"^\$([^$]+)\$$", r"\1", text).strip()  # LaTeX's
    return re.sub(r"^([+-]?[$€£¥]?) ", r"\1", text)


def _magnitude(match: re.Match[str]) -> Fraction | None:
    if match["under"] is not None:
        if int(match["under"]) == 0:
            return None
        return int(match["mixed"] or 0) + Fraction(int(match["over"]), int(match["under"]))
    if match["whole"] is None and match["decimals"] is None:
        return None
    return Fraction(re.sub("[, ]", "", match["whole"] or "0") + (match["decimals"] or ""))


def is_unit(after: str) -> bool:
    """Return whether what follows a number leaves its value as it is: `%`, `kg`, ` square feet`, `/hour`."""
    words = re.sub(r"^ ?[%¢$€£¥°]", "", after).split()
    if words and words[0] in _SHORT_MILLIONS:
        return False
    parts = [part for word in words for part in re.split(r"[/'\u2019.-]", word.removeprefix("/").removesuffix("."))]
    letters = [re.sub(r"(?<=[^\W\deE])(?:\^?[23]|\^\{[23]\}|[²³])$", "", part) for part in parts]
    return (
        len(words) <= _LONGEST_UNIT
        and all(map(str.isalpha, letters))
        and not any(part.lower() in _NOT_A_UNIT or _COMPOUND.fullmatch(part.lower()) for part in letters)
    )


Order = Literal["day_first", "month_first"]
LONGEST_DATE = 64
"""The most characters of a date; longer texts are not read."""

_YEAR_FIRST = re.compile(
    r"(?P<year>[0-9]{4})(?P<sign>[-/.]?)(?P<month>[0-9]{1,2})(?P=sign)(?P<day>[0-9]{1,2})"
    r"(?:(?:\s*T\s*|\s+)[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:\s*[ap]m)?"
    r"\s*(?:Z|UTC|GMT|[+-][0-9]{2}:?(?:[0-9]{2})?)?)?",
    re.IGNORECASE,
)
_BEGINS_SO = re.compile(r"[0-9]{4}[-/.]?[0-9]")
_EAST_ASIAN = re.compile(r"([0-9]{4}) ?[年년] ?([0-9]{1,2}) ?[月월] ?([0-9]{1,2}) ?[日日号號일]")
_MARKS = re.compile(r"(?<=[0-9])(?:st|nd|rd|th)\b", re.IGNORECASE)


def read_date(text: str, order: Order | None = None) -> date | None:
    """Return the day that a text names and nothing else, or `None`.

    Read are dates with the year first ("2014-03-04", "2014/3/4", "20140304"; then always comes the month, ISO 8601),
    with 年月日 or 년월일, with the month in English ("3 March 2014", "March 3rd, 2014", with a day of the week), and in
    numbers. A
    time of day may follow, and is not looked at. Where day and month could be exchanged (03/04/2014), `order` decides,
    and without one the text names no day. Year, month and day must all be there.
    """
    text = text.strip().removesuffix(".").removesuffix("\u3002")
    if not text or len(text) > LONGEST_DATE:
        return None
    text = _EAST_ASIAN.sub(r"\1-\2-\3", nfkc(text))
    if year_first := _YEAR_FIRST.fullmatch(text):
        return _day(year_first)
    if _BEGINS_SO.match(text):
        return None  # dateutil would take 2014/03-04 for either day
    text = _MARKS.sub("", text)
    orders = (True, False) if order is None else (order == "day_first",)
    found = {_parsed(text, day_first=first) for first in orders}
    return found.pop() if len(found) == 1 else None


def _day(match: re.Match[str]) -> date | None:
    year, month, day = (match[each] for each in ("year", "month", "day"))
    if not match["sign"] and len(month + day) < 4:
        return None  # 2014111 may be the 11th of January or the 1st of November
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def _parsed(text: str, *, day_first: bool) -> date | None:
    """Return the day; `None` if a part of it is missing, which shows as it is then taken from the default."""
    try:
        first, second = (
            parser.parse(text, dayfirst=day_first, default=default).date()
            for default in (datetime(2001, 2, 3), datetime(2004, 5, 6))
        )
    except (ValueError, OverflowError, TypeError, AttributeError, ArithmeticError):
        return None
    return first if first == second else None
