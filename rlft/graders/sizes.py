"""How long a text is, in characters, words, sentences, lines or paragraphs."""

from __future__ import annotations

import re
from typing import Literal

Measured = Literal["characters", "words", "sentences", "lines", "paragraphs"]

# Possessive, and from the first mark of a row alone: otherwise every mark of a long row would be tried as a start.
_MARK = r"[.!?\u2026\u3002\uff01\uff1f]"
_SENTENCE_END = re.compile(rf"(?<!{_MARK}){_MARK}++[\"'\u201d\u2019)\]]{{0,3}}+(?=\s|$)")


def size(text: str, measured: Measured) -> int:
    """Return how many of these a text has, without what surrounds it.

    Words stand between white space, lines are those with something on them, paragraphs stand between empty lines. A
    sentence ends at a full stop, question or exclamation mark before white space; what follows the last is one, too.
    """
    text = text.strip()
    if measured == "characters":
        return len(text)
    if measured == "words":
        return len(text.split())
    lines = [line.strip() for line in text.splitlines()]
    if measured == "lines":
        return sum(map(bool, lines))
    if measured == "paragraphs":
        return sum(bool(line) and (place == 0 or not lines[place - 1]) for place, line in enumerate(lines))
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    return len(ends) + bool(text[ends[-1] if ends else 0 :].strip())
