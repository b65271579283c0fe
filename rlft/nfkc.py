"""Brings text into the Unicode forms NFKC and NFC in a time that grows with its length, whatever the text is."""

from __future__ import annotations

import unicodedata
from typing import Literal

_MOST_MARKS = 30  # in a row, as in the Stream-Safe Text Format (Unicode Standard Annex 15, section 13)


def nfkc(text: str) -> str:
    """Return the text in NFKC. Of more than 30 combining marks in a row the others are left out: no language has them.

    Python sorts the marks on a letter by insertion, in a time that grows with the square of their number.
    """
    return _normal("NFKC", text)


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
