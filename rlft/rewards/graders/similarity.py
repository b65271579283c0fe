"""Measures texts: how alike two are, from 0 to 1, by letters (fuzzy) or words (ROUGE), and how long one is."""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq

from rlft.texts.characters import apart, count_words

Measure = Literal["fuzzy_match", "rouge_1", "rouge_l"]
LONGEST = 20_000
"""The most characters of a text that is compared. Comparing two texts takes time with the product of their lengths."""

_WORD = re.compile(r"[^\W_]+")


def similarity(measure: Measure, text: str, reference: str) -> float | None:
    """Return how alike a text and a reference are, from 0 to 1; `None` if one has more than `LONGEST` characters.

    `fuzzy_match` is the ratio of RapidFuzz (insertions and deletions over both lengths). `rouge_1` is F1 of the words,
    and `rouge_l` of their longest common subsequence (Lin 2004), without stemming. Words are runs of letters and digits
    in lower case.
    """
    if max(len(text), len(reference)) > LONGEST:
        return None
    if measure == "fuzzy_match":
        return fuzz.ratio(text, reference) / 100
    given, gold = words(text), words(reference)
    common = LCSseq.similarity(given, gold) if measure == "rouge_l" else (Counter(given) & Counter(gold)).total()
    return 2 * common / (len(given) + len(gold)) if common else 0.0


def words(text: str) -> list[str]:
    """Return the runs of letters and digits of a text, in lower case; of scripts without spaces each letter."""
    return _WORD.findall(apart(text.lower()))


Measured = Literal["characters", "words", "sentences", "lines", "paragraphs"]

# Possessive, and from the first mark of a row alone: otherwise every mark of a long row would be tried as a start.
_UNSPACED = "\u3002\uff01\uff1f\uff61\u17d4\u104b"  # of Chinese, Japanese, Khmer and Burmese, without a space behind
_MARK = rf"[.!?\u2026\u0964\u061f\u06d4{_UNSPACED}]"
_QUOTES = r"[\"'\u201d\u2019)\]\u300d\u300f\uff09]{0,3}+"
_SENTENCE_END = re.compile(rf"(?<!{_MARK})(?:{_MARK}++(?<=[{_UNSPACED}]){_QUOTES}|{_MARK}++{_QUOTES}(?=\s|$))")


def size(text: str, measured: Measured) -> int:
    """Return how many of these a text has, without what surrounds it.

    Words are those of `rlft.texts.characters.count_words`, lines have something on them, paragraphs stand between empty
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
