"""Brings text into the Unicode forms NFKC and NFC in a time that grows with its length, whatever the text is."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

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
