r"""Brings answers in LaTeX into one notation, so that layout, names, units and words do not make them differ."""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

from rlft.rewards.graders.latex import GREEK
from rlft.rewards.graders.numbers import is_unit

_UNICODE = {
    "\u2212": "-", "\u2013": "-", "\u00b7": r"\cdot ", "\u00d7": r"\times ", "ϕ": r"\phi ", "ϵ": r"\epsilon ",
    "∞": r"\infty ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "\u222a": r"\cup ", "∩": r"\cap ", "∈": r"\in ",
    "±": r"\pm ", "√": r"\sqrt ", "∅": r"\emptyset ", "°": r"^\circ ",
}  # fmt: skip
for _name in GREEK:  # Unicode's lamda has no b
    _size = "SMALL" if _name.islower() else "CAPITAL"
    _UNICODE[unicodedata.lookup(f"GREEK {_size} LETTER {_name.replace('mbda', 'mda')}")] = rf"\{_name} "
_SAME_SIGNS = (  # in this order: a thin space within a number goes before all others become ordinary spaces
    (re.compile(r"(?<=[0-9])\\[,!;: ](?=[0-9]{3}(?![0-9]))"), ""),
    (re.compile(r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle)(?![A-Za-z])\.?"), ""),
    (re.compile(r"\\!|\{\}(?=\{|$)"), ""),
    (re.compile(r"\\(?:quad|qquad)(?![A-Za-z])|(?<!\\)\\[,;: ]|~"), " "),
    (re.compile(r"\{([:,])\}"), r"\1"),
    (re.compile(r"\\var(?=(?:epsilon|theta|kappa|rho|sigma|phi)(?![A-Za-z]))"), r"\\"),
    (re.compile(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\([lg]eq?)slant(?![A-Za-z])"), r"\\\1"),
    (re.compile("[⁰¹²³⁴-⁹]+"), lambda digits: f"^{{{unicodedata.normalize('NFKC', digits[0])}}}"),
    (re.compile(r"\\(overline|bar|dot)\s*([0-9])"), r"\\\1{\2}"),
    (re.compile(r"(?<![A-Za-z\\])(ln|log|sin|cos|tan)(?=\s*(?:[({\\0-9_^]|[a-z](?![a-z])))"), r"\\\1"),
    (re.compile(r"\\(?:boldsymbol|bm|underline|(?:text)?color\s*\{[a-z]+\})(?![A-Za-z])\s*(?:\{([^{}]*)\})?"), r"\1"),
    (re.compile(r"\\(?:text(?:bf|it|rm|sf|tt|normal)|math(?:rm|bf|it|sf)|mbox)(?![A-Za-z])"), r"\\text"),
    (re.compile(r"\\(?:[lr]?vert|mid)(?![A-Za-z])"), "|"),
    (re.compile(r"\\\{\s*[A-Za-z]\s*[|:]([^=|,:]*)\\\}"), r"\1"),  # all x for which an inequality holds
    (re.compile(r"\\langle(?![A-Za-z])"), "("),
    (re.compile(r"\\rangle(?![A-Za-z])"), ")"),
    (re.compile(r"\\varnothing(?![A-Za-z])|\\\{\s*\\\}"), r"\\emptyset "),
    (re.compile(r"\^\s*(?:\\circ|\{\s*\\circ\s*\}|\\degree|\{\s*\\degree\s*\})(?![A-Za-z])|\\degree(?![A-Za-z])"), "°"),
    (re.compile(r"\\\$|\$"), ""),
    (re.compile(r"\\%"), "%"),
)
_UNIT = re.compile(r"(?<=[^\s{,;])\s*\\text\s*\{([A-Za-z./ ]{1,40})\}(?:\^[23]|\^\{[23]\})?$")
_WRAPPED = re.compile(r"\\text\s*\{([^{}\\]*)\}")
_NAME = re.compile(
    r"""
    (?P<name> \\text\{[^{}]*\} | \\?[A-Za-z]+ (?:\ +[A-Z]+)?
      | [A-Za-z] (?:_[0-9A-Za-z] | _\{[0-9A-Za-z]+\} | \^\{-1\})? \(?[A-Za-z0-9,\ ]*\)? )
    \s* (?: = | \\in(?![A-Za-z]) ) (?P<value>[^=<>]+)
    """,
    re.VERBOSE,
)
_BRACKETED = re.compile(r"\((-?[0-9./]+)\)")
_LETTERS = re.compile(r"[A-Za-z](?:[A-Za-z .,'&/-]| [0-9]+)*")
_CHOICE = re.compile(r"\(\s*([A-Za-z])\s*\)")
_BASED = re.compile(r"(?P<digits>[0-9A-Fa-f]*[0-9][0-9A-Fa-f]*)_(?:\{(?P<group>[0-9]+)\}|(?P<one>[0-9]))")
_CLOCK_OR_RATIO = re.compile(r"[0-9]+(?:\s*:\s*[0-9]+)+(?:\s*[ap]\.?m\.?)?", re.IGNORECASE)
_OR = re.compile(r"\s*(?:\\text\{\s*(?:or|and)\s*\}|\b(?:or|and)\b|,)\s*")
_CAPITALS = re.compile(r"[A-Z]{2,}")
_RECURRING = re.compile(
    r"(?P<sign>-?)(?P<whole>[0-9]{0,20})\.(?P<digits>[0-9]{0,20})\\(?:overline|bar|dot)\{(?P<again>[0-9]{1,20})\}"
)


def plain_latex(text: str) -> str:
    r"""Return the text with one spelling for what is written in several: `\dfrac12`, `\left(`, `\,`, `\textbf{}`, `π`.

    Dollar signs and a full stop at the end are left out. The time is linear in the text's length.
    """
    for sign, written in _UNICODE.items():
        text = text.replace(sign, written)
    for pattern, replacement in _SAME_SIGNS:
        text = pattern.sub(replacement, text)
    return text.strip().removesuffix(".").rstrip()


def without_unit(plain: str) -> str:
    r"""Return an answer without its unit or the brackets of a number: `5\text{ cm}^2` is 5, `30°` is 30, `(-3)` is -3.

    `plain` is text that `plain_latex` returned, here and in the functions below.
    """
    plain = plain.removesuffix("°").rstrip()
    plain = inner[1] if (inner := _BRACKETED.fullmatch(plain)) else plain
    unit = _UNIT.search(plain)
    return plain[: unit.start()] if unit and is_unit(f" {unit[1].strip()}") else plain


def named_value(plain: str) -> tuple[str, str] | None:
    r"""Return (name, value) of `x = 5`, `f(x) = x^2` or `x \in [0, 1]`; `None` for all else, such as `2x = 4`.

    The value of `x = 1 \text{ or } x = 2` is `1, 2`.
    """
    for parts in (_OR.split(plain), [plain]):
        found = [match for part in parts if (match := _NAME.fullmatch(part))]
        names = {re.sub(r"\s", "", match["name"]) for match in found}
        if len(found) == len(parts) and len(names) == 1:
            return names.pop(), ", ".join(match["value"].strip() for match in found)
    return None


def words_of(plain: str) -> str | None:
    r"""Return, in lower case, what is compared letter by letter, or `None` for an answer that is no such thing.

    These are words (`\text{Monday}`), choices (`(B)`), times and ratios (`3:30`, `1:2`), numbers with a base (`101_2`).
    """
    bare = _CHOICE.sub(r"\1", _WRAPPED.sub(r"\1", plain).strip())
    if based := _BASED.fullmatch(bare):
        return f"{based['digits']}_{based['group'] or based['one']}".lower()
    if _CLOCK_OR_RATIO.fullmatch(bare):
        return re.sub(r"[\s.]", "", bare).lower()
    if _LETTERS.fullmatch(bare) and (_WRAPPED.fullmatch(plain) or len(bare) == 1 or _is_word(bare)):
        return " ".join(bare.lower().removesuffix(".").split())
    return None


def same_words(words: str, plain: str) -> bool:
    r"""Return whether an answer says the gold's `words` (of `words_of`), in `\text{}` or not.

    A number's base may be left out.
    """
    bare = _WRAPPED.sub(r"\1", plain).strip()
    said = words_of(plain) or " ".join(bare.lower().split())
    return said == words or (_BASED.fullmatch(words) is not None and said == words.partition("_")[0])


def capital_names(plain: str) -> list[str]:
    """Return the groups of capital letters side by side, sorted: in names of points or matrices their order matters."""
    bare = re.sub(r"\\(?:cdot|times)(?![A-Za-z])|[\s*]", "", _WRAPPED.sub(r"\1", plain))
    return sorted(_CAPITALS.findall(re.sub(r"\\[A-Za-z]+", " ", bare)))


def recurring_decimal(plain: str) -> Fraction | None:
    r"""Return the value of a recurring decimal such as `0.1\overline{6}`; `None` for all else."""
    match = _RECURRING.fullmatch(plain)
    if match is None:
        return None
    once, again = match["digits"], match["again"]
    whole = int((match["whole"] or "0") + once)
    value = Fraction(whole * (10 ** len(again) - 1) + int(again), 10 ** len(once) * (10 ** len(again) - 1))
    return -value if match["sign"] else value


def _is_word(bare: str) -> bool:
    """Return whether plain letters are a word and no product: `Monday`, not `xyz` or `AB`."""
    return len(bare) > 3 and re.fullmatch(r"[A-Z][a-z]+(?: [A-Z]?[a-z]+| [0-9]+)*", bare) is not None
