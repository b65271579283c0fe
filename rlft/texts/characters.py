"""Text as it is compared and shown, whatever its characters.

Some nobody sees, and letters of other scripts look like Latin ones (`as_seen`). Unicode has several forms of one text
(`nfkc`, `nfc`), which are made in a time that grows with its length. Some scripts have no spaces between words, and
Korean glues particles on (`apart`). Some characters control a terminal or reverse the order of letters (`visible`).
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any, Literal

import regex

# Beside format characters (category Cf) and control characters (Cc), those that fonts show nothing for:
# Default_Ignorable_Code_Point of Unicode, and the object replacement character. The tatweel only stretches a word.
_UNSEEN = frozenset({0x034F, 0x0640, 0xFFFC, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x180B, 0x1810),
                     *range(0xFE00, 0xFE10), *range(0xE0000, 0xE1000)})  # fmt: skip
_BLANK = 0x2800  # of Braille
# Small letters of Cyrillic, Greek, Armenian and Latin itself, after confusables.txt of
# Unicode Technical Standard 39. Where the capital alone looks alike, the small letter stands for it.
_LETTERS = str.maketrans(
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0455\u0456\u0458\u0475\u04bb\u04cf\u0501\u051b\u051d"
    "\u03b1\u03b2\u03b3\u03b5\u03b6\u03b7\u03b9\u03ba\u03bc\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03c9"
    "\u0570\u0578\u057d\u0585\u0131\u0251\u0261\u0269",
    "abekmhopctyxsijvhldqwabyezhikmvoptuxwhnuoiagi",
)

# Letters of Lisu, Cherokee, Coptic and other scripts, each as it is, after the same list of Unicode 14.
_MORE = str.maketrans(
    "\u13aa\u15c5\ua4ee\U000102a0\U00016f40\u13f4\u15f7\ua4d0\ua7b4\U00010282\U000102a1\U00010301\u13df\u2ca4\ua4da"
    "\U000102a2\U00010302\U00010415\U0001051c\u13a0\u15de\u15ea\ua4d3\u13ac\u2d39\ua4f0\U00010286\U000118a6"
    "\U000118ae\u03dc\u15b4\ua4dd\ua798\U00010287\U000102a5\U00010525\U000118a2\U000118c2\u050c\u13c0\u13f3\ua4d6"
    "\u13bb\u157c\u2c8e\ua4e7\U000102cf\u037f\u13ab\u148d\ua4d9\ua7b2\u13e6\u16d5\u2c94\ua4d7\U00010518\u13de\u14aa"
    "\u2cd0\ua4e1\U0001041b\U00010526\U000118a3\U000118b2\U00016f16\u03fa\u13b7\u15f0\u16d6\u2c98\ua4df\U000102b0"
    "\U00010311\u2c9a\ua4e0\U00010513\u0b20\u12d0\u2c9e\u2d54\ua4f3\U00010292\U000102ab\U00010404\U000104c2"
    "\U00010516\U000118b5\u13e2\u146d\u2ca2\ua4d1\U00010295\u2d55\u01a6\u13a1\u13d2\u1587\ua4e3\U000104b4\U00016f35"
    "\u054f\u13d5\u13da\ua4e2\U00010296\U00010420\U00016f3a\u13a2\u2ca6\ua4d4\U00010297\U000102b1\U00010315"
    "\U000118bc\U00016f0a\u1200\u144c\ua4f4\U000104ce\U000118b8\U00016f42\u13d9\u142f\u2d38\ua4e6\ua6df\U0001051d"
    "\U000118a0\U00016f08\u13b3\u13d4\ua4ea\u16b7\u2cac\u2d5d\ua4eb\ua7b3\U00010290\U000102b4\U00010317\U00010527"
    "\u04ae\u13a9\u13bd\u2ca8\ua4ec\U000102b2\U000118a4\U00016f43\u13c3\ua4dc\U000118a9\u0184\u042c\u13cf\u1472"
    "\u15af\u2ca5\uabaf\U0001043d\u13e7\u146f\ua4d2\u04bd\uab32\u0584\u1e9d\ua799\uab35\u018d\u0581\u1d83\u13c2"
    "\u13a5\ua647\uab75\U000118c3\u03f3\u01c0\u16c1\u2c92\u2d4f\ua4f2\U0001028a\U00010309\U00016f28\u057c\u03c3"
    "\u0d20\u101d\u10ff\u1d11\u2c9f\uab3d\U0001042c\U000104ea\U000118c8\U000118d7\u2ca3\u0563\u0566\u0433\u1d26"
    "\u2c85\uab47\uab48\uab81\u01bd\uabaa\U00010448\U000118c1\u028b\ua79f\uab4e\uab52\U000104f6\U000118d8\uaba9"
    "\U00011706\U000118c0\u026f\u0461\u0561\uab83\U0001170a\U0001170e\U0001170f\u1541\u157d\u0263\u04af\u10e7\u1d8c"
    "\u1eff\uab5a\U000118dc\uab93\U000118c4",
    "AAAAABBBBBBBCCCCCCCDDDDEEEEEEFFFFFFFFFGGGGHHHHHJJJJJKKKKKLLLLLLLLLMMMMMMMMNNNOOOOOOOOOOOPPPPPQRRRRRRRSSSSSSSTT"
    "TTTTTTUUUUUUVVVVVVVVWWWXXXXXXXXXYYYYYYYYZZZbbbbbcccdddeeffffggghiiiijllllllllnooooooooooopqqrrrrrrssssuuuuuuvv"
    "vwwwwwwwxxyyyyyyyzz",
)
# Latin letters by their names, where neither NFKC nor the list has them, such as small capitals and letters in boxes.
_NAMED = re.compile(
    "(?P<small>LATIN LETTER SMALL CAPITAL)|NEGATIVE (?:SQUARED|CIRCLED) LATIN CAPITAL LETTER"
    "|REGIONAL INDICATOR SYMBOL LETTER"
)
_MARKED = re.compile("LATIN (?P<case>SMALL|CAPITAL) LETTER (?P<letter>[A-Z]) WITH .+")


class _Folded(dict[int, str]):
    """Maps characters of a text to what is compared of them: themselves, a Latin letter, or nothing."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = unicodedata.category(character)
        unseen = code in _UNSEEN or kind == "Cf" or (kind == "Cc" and not character.isspace())
        self[code] = part = "" if unseen else " " if code == _BLANK else _letter(character)
        return part


def _letter(character: str) -> str:
    if (more := _MORE.get(ord(character))) is not None:
        return chr(more)
    small = character.lower()
    if len(small) == 1 and (latin := _LETTERS.get(ord(small))) is not None:
        return chr(latin) if small == character else chr(latin).upper()
    kind, _, letter = unicodedata.name(character, "").rpartition(" ")
    if len(letter) == 1 and (named := _NAMED.fullmatch(kind)):
        return letter.lower() if named["small"] else letter
    return character


_FOLDED = _Folded()


def as_seen(text: str) -> str:
    """Return a text without what nobody sees, and with Latin letters for those that look like them.

    Of text that is compared whatever its case, case-fold it first.
    """
    return text if text.isascii() and text.isprintable() else text.translate(_FOLDED)


class _Bare(dict[int, str]):
    """Maps characters of a text to what is left of them without accents and strokes."""

    def __missing__(self, code: int) -> str:
        pieces = unicodedata.normalize("NFD", chr(code))
        self[code] = part = unicodedata.normalize("NFC", "".join(map(_bare, pieces)))
        return part


def _bare(character: str) -> str:
    if unicodedata.category(character) == "Mn":
        return ""
    marked = _MARKED.fullmatch(unicodedata.name(character, ""))
    if marked is None:
        return character
    return marked["letter"].lower() if marked["case"] == "SMALL" else marked["letter"]


_BARE = _Bare()


def without_marks(text: str) -> str:
    """Return a text without accents, strokes through letters and all other marks that take no room of their own."""
    return text if text.isascii() else text.translate(_BARE)


_RAISED, _FRACTION = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+"), re.compile("[\u00bc-\u00be\u2150-\u215e]")
_MOST_MARKS = 30  # in a row, as in the Stream-Safe Text Format (Unicode Standard Annex 15, section 13)


def nfkc(text: str) -> str:
    """Return the text in NFKC. Of more than 30 combining marks in a row the others are left out: no language has them.

    Python sorts the marks on a letter by insertion, in a time that grows with the square of their number.
    """
    return _normal("NFKC", text)


def as_written(text: str) -> str:
    """Return the text in NFKC, but with 5² as 5^2, and 2½ as 2 and a half: not as 52, and 21 halves."""
    return nfkc(_FRACTION.sub(r" \g<0>", _RAISED.sub(r"^\g<0>", text)))


def nfc(text: str) -> str:
    """Return the text in NFC, with as few combining marks in a row as `nfkc` leaves."""
    return _normal("NFC", text)


def _normal(form: Literal["NFC", "NFKC"], text: str) -> str:
    if text.isascii():
        return text
    return unicodedata.normalize(form, _with_few_marks(text) if any(map(unicodedata.combining, text)) else text)


def _with_few_marks(text: str) -> str:
    """Return the text without the marks beyond the first 30 of a row."""
    kept, marks = list[str](), 0
    for character in text:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= _MOST_MARKS:
            kept.append(character)
    return "".join(kept)


_UNSPACED = r"\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Thai}\p{scx=Laoo}\p{scx=Khmr}\p{scx=Mymr}"
_SIGN = {
    korean: regex.compile(rf"(?=[\p{{L}}\p{{Nl}}])(?=[{scripts}])\X\p{{M}}*")
    for korean, scripts in ((False, _UNSPACED), (True, _UNSPACED + r"\p{scx=Hang}"))
}


def apart(text: str, *, korean: bool = True) -> str:
    """Return a text with spaces around each letter of Chinese, Japanese, Thai, Lao, Khmer, Burmese and `korean`.

    Where words end could only be guessed, so each letter, with the marks on it, is a word. Other text stays as it is.
    """
    return text if text.isascii() else _SIGN[korean].sub(r" \g<0> ", text)


def count_words(text: str) -> int:
    """Return how many words a text has: what stands between white space, and each letter set apart but Korean ones."""
    words = (apart(part, korean=False).split() for part in text.split())
    return sum(max(1, sum(any(map(str.isalnum, each)) for each in found)) for found in words)


# Control characters (C0 but tab and newline, DEL, C1), marks and overrides of direction, line separators, and lone
# surrogates, which no encoding takes. All are below U+10000, so one JSON escape of four digits is enough for each.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Return the text with control characters and the like written out as escapes: `\x1b`, `\u202e`.

    Newlines and tabs stay. Applying it again changes nothing.
    """
    return _STEERING.sub(lambda found: ascii(found[0])[1:-1], text)


def visible_json(value: Any) -> str:
    r"""Return a JSON value as indented text, in which the characters that `visible` writes out are escapes (`\u001b`).

    A program that reads the JSON gets the same strings back. Raises what `json.dumps` raises.
    """
    text = json.dumps(value, ensure_ascii=False, indent=1)
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
