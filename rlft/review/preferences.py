"""What people said that attempts at one task deserve, as pairs of which one is the better."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

from rlft.review.opinions import Opinion, deserving
from rlft.specification.attempt import item_of

APART = 0.2
"""Attempts that deserve less than this share of the reward more than one another are no pair."""


def preferences(opinions: Iterable[Opinion]) -> list[dict[str, Any]]:
    """Return pairs in the form that `rlft reward agreement` reads: two attempts at one task, and the better one.

    The task's row is their `item`, as a specification may name its answer and its columns.
    """
    means = [(found[0], mean) for found, mean in deserving(opinions)]
    return [
        _pair(one, other, 1 if more > less else 2)
        for (one, more), (other, less) in combinations(means, 2)
        if one.task.id == other.task.id and one.text != other.text and abs(more - less) >= APART
    ]


def _pair(one: Opinion, other: Opinion, label: int) -> dict[str, Any]:
    return {
        "id": f"{one.rollout.rollout_id} {other.rollout.rollout_id}",
        "input": one.prompt,
        "output_1": one.text,
        "output_2": other.text,
        "label": label,
        "group": one.task.group,
        "item": item_of(one.task),
    }
