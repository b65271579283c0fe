"""Compares short answers in words as SQuAD does (Rajpurkar et al. 2016, arXiv:1606.05250)."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence

from rlft.texts.characters import apart

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_VERDICTS = frozenset({"yes", "no"})


def normalise_answer(text: str) -> str:
    """Return the text in lower case, without punctuation, articles and extra white space.

    Beyond SQuAD, dashes and quotation marks of every kind count as punctuation, so that an en dash equals a hyphen, and
    an answer of nothing but articles and punctuation ("A", "+") stays as it is, in lower case.
    """
    lower = text.lower()
    kept = "".join(character for character in lower if not _is_punctuation(character))
    return " ".join(_ARTICLE.sub(" ", kept).split()) or " ".join(lower.split())


def exact_match(answer: str, golds: Sequence[str]) -> float:
    """Return 1 if the answer equals one of the gold answers after normalisation, else 0."""
    normal = normalise_answer(answer)
    return float(bool(normal) and any(normal == normalise_answer(gold) for gold in golds))


def token_f1(answer: str, golds: Sequence[str]) -> float:
    """Return the F1 (0 to 1) of the answer's words against those of the gold answer that it fits best.

    Of scripts without spaces each letter is a word (`rlft.texts.characters`). Where either side is yes or no only
    equality counts, as in HotpotQA (arXiv:1809.09600): "yes and no" earns nothing.
    """
    return max((_f1(normalise_answer(answer), normalise_answer(gold)) for gold in golds), default=0.0)


def _f1(answer: str, gold: str) -> float:
    if answer in _VERDICTS or gold in _VERDICTS:
        return float(answer == gold)
    given, wanted = apart(answer).split(), apart(gold).split()
    shared = (Counter(given) & Counter(wanted)).total()
    return 2 * shared / (len(given) + len(wanted)) if shared else 0.0


def _is_punctuation(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character).startswith("P")
