"""How long a text is, in characters, words, sentences, lines or paragraphs."""

from __future__ import annotations

import re
from typing import Literal

from rlft.characters import count_words

Measured = Literal["characters", "words", "sentences", "lines", "paragraphs"]

# Possessive, and from the first mark of a row alone: otherwise every mark of a long row would be tried as a start.
_UNSPACED = "\u3002\uff01\uff1f\uff61\u17d4\u104b"  # of Chinese, Japanese, Khmer and Burmese, without a space behind
_MARK = rf"[.!?\u2026\u0964\u061f\u06d4{_UNSPACED}]"
_QUOTES = r"[\"'\u201d\u2019)\]\u300d\u300f\uff09]{0,3}+"
_SENTENCE_END = re.compile(rf"(?<!{_MARK})(?:{_MARK}++(?<=[{_UNSPACED}]){_QUOTES}|{_MARK}++{_QUOTES}(?=\s|$))")


def size(text: str, measured: Measured) -> int:
    """Return how many of these a text has, without what surrounds it.

    Words are those of `rlft.characters.count_words`, lines have something on them, paragraphs stand between empty
    lines. A sentence ends at a full stop, question or exclamation mark before white space, or, of a script without
    spaces, before anything; what follows the last is one, too.
    """
    text = text.strip()
    if measured == "characters":
        return len(text)
    if measured == "words":
        return count_words(text)
    lines = [line.strip() for line in text.splitlines()]
    if measured == "lines":
        return sum(map(bool, lines))
    if measured == "paragraphs":
        return sum(bool(line) and (place == 0 or not lines[place - 1]) for place, line in enumerate(lines))
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    return len(ends) + bool(text[ends[-1] if ends else 0 :].strip())
