"""Reads what a text lists, and short answers in words with their sources, and compares them with what is right.

Short answers are compared as SQuAD does (Rajpurkar et al. 2016, arXiv:1606.05250).
"""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rapidfuzz.distance import LCSseq

from rlft.rewards.graders.plain import plain
from rlft.texts.characters import apart
from rlft.types import Trajectory

Compared = Literal["exact", "precision", "recall", "f1", "jaccard"]
MOST_ITEMS = 10_000
"""The most items of a list; a longer one is not read."""

_ITEMS = re.compile("[,;\n\u3001\uff0c\uff1b\uff64\u060c\u061b]")  # and those of Chinese, Japanese and Arabic
_BULLET, _NUMBER = re.compile(r"[-*•]\s+"), re.compile(r"(?:[-*•]|[0-9]{1,4}[.)])\s+")


def read_items(value: Any, separator: str | None = None, *, numbered: bool = True) -> list[str] | None:
    """Return the items of a JSON list or object, or of a text that lists them; `None` if it is none or has too many.

    A text may be a JSON list. The items of any other text stand between `separator`, or commas, semicolons and ends of
    lines; bullets before them are dropped, empty ones too, and, if they are `numbered`, numbers such as `1.`. Those of
    an object are `key: value`, one for each value of a list. Items that are not text are written as JSON.
    """
    if isinstance(value, str) and (listed := _json_list(value)) is not None:
        items = [plain(each) for each in listed]
    elif isinstance(value, str):
        parts = value.split(separator) if separator else _ITEMS.split(value)
        items = [(_NUMBER if numbered else _BULLET).sub("", part.strip(), count=1).strip() for part in parts]
        items = [item for item in items if item]
    elif isinstance(value, Sequence):
        items = [plain(each) for each in value]
    elif isinstance(value, Mapping):
        items = [
            pair(key, each) for key, held in value.items() for each in (held if isinstance(held, list) else [held])
        ]
    elif value is None:
        return None
    else:
        items = [plain(value)]
    return items if len(items) <= MOST_ITEMS else None


def _json_list(text: str) -> list[Any] | None:
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def pair(name: str, value: Any) -> str:
    """Return a name and its value as one item."""
    return f"{name}: {plain(value)}"


def compare_items(given: Sequence[str], gold: Sequence[str], compared: Compared, *, ordered: bool = False) -> float:
    """Return how far the given items are the right ones, from 0 to 1; one that stands twice counts twice.

    `precision` is the share of the given ones that are right, `recall` the share of the right ones that are given,
    `f1` their harmonic mean, `jaccard` those in both over those in either, and `exact` is 1 for the same items. With
    `ordered` those count that stand in the same order (the longest common subsequence). Two empty lists are the same.
    Recall alone pays for listing everything, precision alone for listing one.
    """
    if not given and not gold:
        return 1.0
    if compared == "exact":
        return float(list(given) == list(gold) if ordered else Counter(given) == Counter(gold))
    common = LCSseq.similarity(list(given), list(gold)) if ordered else (Counter(given) & Counter(gold)).total()
    whole = {
        "precision": len(given),
        "recall": len(gold),
        "f1": (len(given) + len(gold)) / 2,
        "jaccard": len(given) + len(gold) - common,
    }[compared]
    return common / whole if whole else 0.0


_ANSWER = re.compile(r"\W*answer\W*:(.*)", re.IGNORECASE)
_SOURCES = re.compile(r"\W*sources?\W*:(.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Declared:
    """Holds what an attempt declares: the answer as it was written, and the ids of the documents it cites."""

    text: str
    sources: tuple[str, ...]


def declared_answer(completion: Trajectory) -> Declared | None:
    """Return the answer and the sources in the last two lines of the last message, or `None` without this form.

    The last message must be the assistant's, complete and without tool calls. If a further line begins with Answer: or
    Sources:, or the answer's line has a second one, there are two declarations, and the result is `None`.
    """
    if not completion or completion.truncated:
        return None
    last = completion[-1]
    if last["role"] != "assistant" or last.get("tool_calls"):
        return None
    lines = [line.strip() for line in last["content"].splitlines() if line.strip()]
    answers = [match for line in lines if (match := _ANSWER.fullmatch(line))]
    sources = [match for line in lines if (match := _SOURCES.fullmatch(line))]
    if len(answers) != 1 or len(sources) != 1 or [answers[0].string, sources[0].string] != lines[-2:]:
        return None
    text = answers[0].group(1).strip(" \t*_`")
    if not text or re.search(r"\b(?:answer|sources?)\W*:", text, re.IGNORECASE):
        return None
    cited = (each.strip("[]{}<>\"'`*.") for each in re.split(r"[\s,;]+", sources[0].group(1)))
    return Declared(text, tuple(dict.fromkeys(filter(None, cited))))


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
