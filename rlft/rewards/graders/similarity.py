"""Measures texts: how alike two are, how long one is, and in which language it is written.

Likeness goes from 0 to 1, by letters (fuzzy) or by runs of words (BLEU, GLEU, ROUGE). A language is told by a small
model that py3langid brings with it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, get_args

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq
from sacrebleu.metrics.bleu import BLEU

from rlft.texts.characters import apart, count_words

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


FEWEST_LETTERS = 20
"""A text with fewer letters is in no language that could be told."""
_READ = 5000  # characters: more tell no more


def check_language(code: str) -> str:
    """Return a language's code. Raises ValueError for one that cannot be told apart."""
    known = sorted(map(str, _model().labels))
    if code not in known:
        raise ValueError(f"{code!r:.20} is no known language; write one of {', '.join(known)}")
    return code


def language_of(text: str) -> str | None:
    """Return the ISO 639-1 code of the language that a text is most likely in, such as `en`.

    `None` for a text with fewer than `FEWEST_LETTERS` letters. Of a long text the first 5,000 characters are read.
    """
    read = text[:_READ]
    if sum(map(str.isalpha, read)) < FEWEST_LETTERS:
        return None
    return str(_model().classify(read)[0])


@cache
def _model() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)
