"""How alike two texts are, from 0 to 1: by letters (fuzzy), by runs of words (BLEU, GLEU, ROUGE)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal, get_args

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq
from sacrebleu.metrics.bleu import BLEU

from rlft.characters import apart

Measure = Literal[
    "fuzzy_match", "bleu", "gleu", "rouge_1", "rouge_2", "rouge_3", "rouge_4", "rouge_5", "rouge_l"
]  # fmt: skip
MEASURES: tuple[Measure, ...] = get_args(Measure)
LONGEST = 20_000
"""The most characters of a text that is compared. Comparing two texts takes time with the product of their lengths."""

_WORD = re.compile(r"[^\W_]+")


def similarity(measure: Measure, text: str, reference: str) -> float | None:
    """Return how alike a text and a reference are, from 0 to 1; `None` if one has more than `LONGEST` characters.

    `fuzzy_match` is the ratio of RapidFuzz (insertions and deletions over both lengths). `bleu` is sacreBLEU's of one
    sentence, exponentially smoothed and with the effective order (Papineni et al. 2002). `gleu` is the lesser of
    precision and recall over all runs of one to four words (arXiv:1609.08144). `rouge_1` to `rouge_5` are F1 of runs
    of so many words, and `rouge_l` of the longest common subsequence of words (Lin 2004), without stemming. BLEU reads
    words as its tokenizer `13a` does, GLEU and ROUGE as runs of letters and digits in lower case.
    """
    if max(len(text), len(reference)) > LONGEST:
        return None
    if measure == "fuzzy_match":
        return fuzz.ratio(text, reference) / 100
    if measure == "bleu":
        return _bleu(text, reference)
    given, gold = words(text), words(reference)
    if measure == "gleu":
        return _gleu(given, gold)
    if measure == "rouge_l":
        return _f1(LCSseq.similarity(given, gold), len(given), len(gold))
    order = int(measure[-1])
    ours, theirs = _runs(given, order), _runs(gold, order)
    return _f1((ours & theirs).total(), ours.total(), theirs.total())


def words(text: str) -> list[str]:
    """Return the runs of letters and digits of a text, in lower case; of scripts without spaces each letter."""
    return _WORD.findall(apart(text.lower()))


def _bleu(text: str, reference: str) -> float:
    if not text.strip() or not reference.strip():
        return 0.0
    return min(1.0, BLEU(effective_order=True).sentence_score(apart(text), [apart(reference)]).score / 100)


def _gleu(given: Sequence[str], gold: Sequence[str]) -> float:
    ours = Counter(run for order in range(1, 5) for run in _runs(given, order).elements())
    theirs = Counter(run for order in range(1, 5) for run in _runs(gold, order).elements())
    most = max(ours.total(), theirs.total())
    return (ours & theirs).total() / most if most else 0.0


def _f1(common: int, given: int, gold: int) -> float:
    return 2 * common / (given + gold) if common else 0.0


def _runs(said: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(said[place : place + order]) for place in range(len(said) - order + 1))
