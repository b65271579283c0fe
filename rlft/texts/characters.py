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


class _Folded(dict[int, str]):
    """Maps characters of a text to what is compared of them: themselves, a Latin letter, or nothing."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = unicodedata.category(character)
        unseen = code in _UNSEEN or kind == "Cf" or (kind == "Cc" and not character.isspace())
        self[code] = part = "" if unseen else " " if code == _BLANK else _letter(character)
        return part


def _letter(character: str) -> str:
    small = character.lower()
    latin = _LETTERS.get(ord(small)) if len(small) == 1 else None
    if latin is None:
        return character
    return chr(latin) if small == character else chr(latin).upper()


_FOLDED = _Folded()


def as_seen(text: str) -> str:
    """Return a text without what nobody sees, and with Latin letters for those that look like them.

    Of text that is compared whatever its case, case-fold it first.
    """
    return text if text.isascii() and text.isprintable() else text.translate(_FOLDED)


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
