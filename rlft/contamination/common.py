"""Finds what many texts have in common, such as the template of a harness, and takes it out of them.

The rule, `COMMON_RUN`, `MOST_GROUPS` and `MOST_SHARE`, is derived in docs/guide/contamination.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence

from rlft.contamination.texts import Text
from rlft.contamination.words import runs

COMMON_RUN = 7
"""Words of a run that may be common: more than half of the 13 that make an overlap."""
MOST_GROUPS, MOST_SHARE = 10, 0.01
"""A run is common in more than so many groups of texts, and in more than this share of them."""


def common_runs(evaluated: Sequence[Text], others: Iterable[Sequence[Text]]) -> set[int]:
    """Return the hashes of the runs of `COMMON_RUN` words of `evaluated` that are common to it, or to one of `others`.

    Each of `others` is a set of texts of its own, such as the train tasks.
    """
    known = {each for text in evaluated for part in text.parts for each in runs(part, COMMON_RUN)}
    return {each for texts in (evaluated, *others) for each in _common_to(texts, known)}


def _common_to(texts: Sequence[Text], known: Collection[int]) -> list[int]:
    """Return which of the runs are common to the texts."""
    of_group = defaultdict[str, set[int]](set)
    for text in texts:
        for part in text.parts:
            of_group[text.group].update(each for each in runs(part, COMMON_RUN) if each in known)
    counts = Counter[int]()
    for found in of_group.values():
        counts.update(found)
    most = most_groups(len(of_group))
    return [each for each, count in counts.items() if count > most]


def most_groups(groups: int) -> float:
    """Return in how many of so many groups a run may be without being common.

    Ten, or 1 % where that is more. Where there are few groups, half of them, but at least two.
    """
    return min(max(MOST_GROUPS, MOST_SHARE * groups), max(2, groups / 2))


def pieces(text: Text, common: Collection[int]) -> list[list[str]]:
    """Return what is left of a text without the common runs: pieces of its messages, in their order."""
    found = list[list[str]]()
    for part in text.parts:
        begun, taken = list[str](), 0  # `taken`: up to which word the common runs reach that have begun so far
        starts = runs(part, COMMON_RUN)
        for place, word in enumerate(part):
            if place < len(starts) and starts[place] in common:
                taken = place + COMMON_RUN
            if place >= taken:
                begun.append(word)
            elif begun:
                found.append(begun)
                begun = []
        if begun:
            found.append(begun)
    return found
