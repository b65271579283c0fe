"""Scripts that put no spaces between words, whose signs are taken for words."""

from __future__ import annotations

import regex

_SIGN = regex.compile(
    r"(?=[\p{L}\p{Nl}])(?=[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Thai}\p{scx=Laoo}\p{scx=Khmr}\p{scx=Mymr}])\X\p{M}*"
)


def apart(text: str) -> str:
    """Return a text with spaces around each letter of Chinese, Japanese, Thai, Lao, Khmer and Burmese.

    Where words end could only be guessed, so each letter, with the marks on it, is a word. Other text stays as it is.
    """
    return text if text.isascii() else _SIGN.sub(r" \g<0> ", text)


def count_words(text: str) -> int:
    """Return how many words a text has: what stands between white space, and each letter that `apart` sets apart."""
    return sum(max(1, sum(any(map(str.isalnum, each)) for each in apart(part).split())) for part in text.split())
