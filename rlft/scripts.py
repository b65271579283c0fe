"""Scripts without spaces between words, whose signs are taken for words; and Korean, which glues particles on."""

from __future__ import annotations

import regex

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
