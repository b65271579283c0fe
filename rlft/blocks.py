"""What is told of a result, block by block; a terminal, a page and Markdown show each in their own way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Headline:
    """The sentence that stands above all others."""

    text: str


@dataclass(frozen=True, slots=True)
class Caution:
    """A sentence that nobody should miss who reads the rest."""

    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    """A sentence, and those that explain it."""

    text: str
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Holds the cells of a table as plain texts; each of `rows` has as many as `columns`. It may have no `title`."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def level(value: float, metric: str) -> str:
    """Return a mean of a metric as results write it: a share in per cent, a reward or a part of it in its own unit."""
    return f"{value:.3f}" if metric.startswith("reward") else f"{100 * value:.1f} %"


def change(value: float, metric: str) -> str:
    """Return a difference in a metric: one of shares in percentage points, a reward's in its own unit.

    >>> from rlft.blocks import change
    >>> change(0.05, "accuracy"), change(0.05, "reward")
    ('+5.0 points', '+0.050')
    """
    if metric.startswith("reward"):
        return f"{round(value, 3) + 0.0:+.3f}"  # adding 0 makes 0 of -0
    return f"{round(100 * value, 1) + 0.0:+.1f} points"


def ends(low: float, high: float, metric: str) -> str:
    """Return the ends of a difference's interval, such as `-1.0 to +5.0`, in the unit of `change`."""
    return f"{change(low, metric)} to {change(high, metric)}".replace(" points", "")


Block = Headline | Caution | Bullets | Table | str
