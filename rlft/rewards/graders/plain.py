"""JSON values as texts that can be compared, how alike two texts are, and how long one is."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, Literal

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq

from rlft.texts.characters import apart, as_seen, count_words, nfc, nfkc


def plain(value: Any) -> str:
    """Return a JSON value as text: a text as it is, a whole number without a point, all else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def normal(text: str, *, ignore_case: bool, ignore_space: bool) -> str:
    """Return a text as it is compared: in one Unicode form (NFC), and without case and surplus white space if asked."""
    text = nfc(text)
    if ignore_case:
        text = text.casefold()
    return " ".join(text.split()) if ignore_space else text


def seen(text: str) -> str:
    """Return a text as a person sees it: in full width (NFKC), with Latin letters for those that look like them."""
    return as_seen(nfkc(text))


def holds_something(value: Any) -> bool:
    """Return whether a JSON value has anything that can be seen: a text that is not blank, a number, true or false."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            if seen(each).strip():
                return True
        elif isinstance(each, dict | list):
            waiting.extend(each.values() if isinstance(each, dict) else each)
        elif each is not None:
            return True
    return False


Measure = Literal["fuzzy_match", "rouge_1", "rouge_l"]
LONGEST = 20_000
"""The most characters of a text that is compared. Comparing two texts takes time with the product of their lengths."""

_WORD = re.compile(r"[^\W_]+")


def similarity(measure: Measure, text: str, reference: str) -> float:
    """Return how alike a text and a reference are, from 0 to 1.

    `fuzzy_match` is the ratio of RapidFuzz (insertions and deletions over both lengths). `rouge_1` is F1 of the words,
    and `rouge_l` of their longest common subsequence (Lin 2004), without stemming. Words are runs of letters and digits
    in lower case.
    """
    if measure == "fuzzy_match":
        return fuzz.ratio(text, reference) / 100
    given, gold = words(text), words(reference)
    common = LCSseq.similarity(given, gold) if measure == "rouge_l" else (Counter(given) & Counter(gold)).total()
    return 2 * common / (len(given) + len(gold)) if common else 0.0


def words(text: str) -> list[str]:
    """Return the runs of letters and digits of a text, in lower case; of scripts without spaces each letter."""
    return _WORD.findall(apart(text.lower()))


Measured = Literal["characters", "words", "lines"]


def size(text: str, measured: Measured) -> int:
    """Return how many of these a text has, without what surrounds it.

    Words are those of `rlft.texts.characters.count_words`; lines have something on them.
    """
    text = text.strip()
    if measured == "words":
        return count_words(text)
    return len(text) if measured == "characters" else sum(bool(line.strip()) for line in text.splitlines())
