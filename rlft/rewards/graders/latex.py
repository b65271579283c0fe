r"""Reads answers in LaTeX: the one that is boxed, its number, whether it may be parsed, and one notation of it.

math-verify and sympy, which parse and compare expressions, have no bound on their time. So texts are bounded before
they see them; a power tower, say, is never computed.
"""

from __future__ import annotations

import math
import re
import unicodedata
from fractions import Fraction

from rlft.rewards.graders.numbers import is_unit

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
    *("binom", "lfloor", "rfloor", "lceil", "rceil", "frac", "dfrac", "tfrac", "sqrt", "cdot", "times", "div"),
    *("pm", "circ", "cup", "cap", "setminus", "in"),
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
_TEXT_UNIT = re.compile(r"(?<=[^\s{,;])\s*\\text\s*\{([A-Za-z./ ]{1,40})\}(?:\^[23]|\^\{[23]\})?$")
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
_WORDS = re.compile(r"[A-Za-z](?:[A-Za-z .,'&/-]| [0-9]+)*")
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
    unit = _TEXT_UNIT.search(plain)
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
    if _WORDS.fullmatch(bare) and (_WRAPPED.fullmatch(plain) or len(bare) == 1 or _is_word(bare)):
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
