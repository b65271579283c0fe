"""Scores how far an extraction agrees with a label, field by field. Scores lie in [0, 1]; the label itself earns 1."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date

from rlft.environments.press_releases.extraction import Extraction, contradictions
from rlft.environments.press_releases.places import is_dated, named_provinces

MAIN_FIELDS = ("event_type", "province", "target_group", "min_killed", "min_captured")
HONEST = 0.5
"""The score of an honest answer where the label cannot be read from the text: more than a guess can expect."""
FLAGS = ("killq", "captureq", "killcaptureraid", "airstrike", "noshotsfired")

# The most frequent value of each field; the date is empty, as the dates of the data are spread over three years.
CONSTANT = Extraction(
    start_date="", event_type=["detention"], province=["helmand"], target_group=["taliban"],
    min_killed=0, min_captured=3, min_leaders_killed=0, min_leaders_captured=0,
    killq=False, captureq=True, killcaptureraid=True, airstrike=False, noshotsfired=False,
)  # fmt: skip


def field_scores(given: Extraction, gold: Extraction, text: str) -> dict[str, float]:
    """Return {part: score} of every field and field group, and of `grounded` and `plausible`.

    `text` is the release.
    """
    named = named_provinces(text)
    honest = honest_provinces(gold.province, named)
    undated = not given.start_date and not is_dated(text)
    return {
        "start_date": max(day(given.start_date, gold.start_date), HONEST * undated),
        "event_type": overlap(given.event_type, gold.event_type),
        "province": max(overlap(given.province, gold.province), HONEST * (given.province in honest)),
        "target_group": overlap(given.target_group, gold.target_group),
        "min_killed": count(given.min_killed, gold.min_killed),
        "min_captured": count(given.min_captured, gold.min_captured),
        "leaders": float(_leaders(given) == _leaders(gold)),
        "flags": max(0.0, 1.0 - 0.5 * sum(getattr(given, flag) != getattr(gold, flag) for flag in FLAGS)),
        "grounded": float(is_grounded(given.province, gold.province, named)),
        "plausible": float(set(contradictions(given)) <= set(contradictions(gold))),
    }


def main_right(given: Extraction, gold: Extraction) -> float:
    """Return the share of the five main fields that are exactly the label's, whatever the order of lists."""
    return sum(_plain(given, name) == _plain(gold, name) for name in MAIN_FIELDS) / len(MAIN_FIELDS)


def overlap(given: Collection[str], gold: Collection[str]) -> float:
    """Return the number of values in both over the number in either (Jaccard index); 1 if both are empty.

    F1 would pay for hedging: two values of which one is right earn 2/3 with it and 1/2 here, as much as choosing one of
    them blindly.
    """
    either = set(given) | set(gold)
    return len(set(given) & set(gold)) / len(either) if either else 1.0


def count(given: int, gold: int) -> float:
    """Return 1 for the label's number, and 1/2 for a neighbour of it where both are 3 or more.

    Such labels often stand for words ("several" is 3, "numerous" 4), not for people who were counted.
    """
    if given == gold:
        return 1.0
    return 0.5 * (min(given, gold) >= 3 and abs(given - gold) == 1)


def day(given: str, gold: str) -> float:
    """Return 1 for the label's day, 1/2 for the day before or after, else 0. Both are ISO dates or empty."""
    if given == gold:
        return 1.0
    if not given or not gold:
        return 0.0
    return 0.5 * (abs((date.fromisoformat(given) - date.fromisoformat(gold)).days) == 1)


def honest_provinces(gold: Collection[str], named: Collection[str]) -> list[list[str]]:
    """Return the answers that the text supports although the label is another one, where it does not name the label's.

    There the annotator knew more than the text says, or erred: honest is an empty list, or the one province that the
    text names (`named`). Where the text names all provinces of the label, no other answer is honest.
    """
    if set(gold) <= set(named):
        return []
    return [[], list(named)] if len(named) == 1 else [[]]


def is_grounded(given: Collection[str], gold: Collection[str], named: Collection[str]) -> bool:
    """Return whether an answer names only provinces that the text names, and at least one where it names any.

    The label is grounded whatever the text says, and so is an honest answer (`honest_provinces`).
    """
    if set(given) == set(gold) or given in honest_provinces(gold, named):
        return True
    return set(given) <= set(named) if given else not named


def _leaders(extraction: Extraction) -> tuple[int, int]:
    return extraction.min_leaders_killed, extraction.min_leaders_captured


def _plain(extraction: Extraction, name: str) -> object:
    value = getattr(extraction, name)
    return set(value) if isinstance(value, list) else value
