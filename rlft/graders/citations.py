"""Reads the sources that a text cites, such as `[d12]`, and compares them with what it should cite."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

MOST_CITED = 1000
"""The most sources that are read."""

_CITED = re.compile(r"\[([^\[\]\n]{1,200})\]")


def cited_ids(text: str) -> tuple[str, ...] | None:
    """Return the ids that a text cites in square brackets, each once, in order: `[d1]`, `[d1, d2]`, `[d1; d2]`.

    `None` if there are more than `MOST_CITED`. What stands in brackets and is no id counts as a wrong one.
    """
    found: dict[str, None] = {}
    for match in _CITED.finditer(text):
        found |= dict.fromkeys(each.strip() for each in re.split(r"[,;]", match[1]) if each.strip())
        if len(found) > MOST_CITED:
            return None
    return tuple(found)


def citation_score(cited: Sequence[str], gold: Collection[str]) -> float:
    """Return F1 of the cited ids against those that should be cited, from 0 to 1; 1 if neither has any.

    Citing everything costs precision, citing one of several costs recall.
    """
    if not cited and not gold:
        return 1.0
    common = len(set(cited) & set(gold))
    return 2 * common / (len(set(cited)) + len(set(gold)))
