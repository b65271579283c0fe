"""A range of a quantity: from what it may be at least to what it may be at most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """From `low` to `high`, both 0 or more, in the unit of what it is a range of."""

    low: float = 0.0
    high: float = 0.0

    def __add__(self, other: Span) -> Span:
        return Span(self.low + other.low, self.high + other.high)

    def times(self, factor: float | Span) -> Span:
        """Return the range of a product with a number, or with another quantity that may lie anywhere in its range."""
        by = factor if isinstance(factor, Span) else Span(factor, factor)
        return Span(self.low * by.low, self.high * by.high)

    def widened(self, low: float, high: float) -> Span:
        """Return the range with its ends times these factors."""
        return Span(self.low * low, self.high * high)

    def at_most(self, bound: float) -> Span:
        """Return the range of what is cut off at a bound."""
        return Span(min(self.low, bound), min(self.high, bound))


def exactly(value: float) -> Span:
    """Return the range of what is known."""
    return Span(value, value)


def longer(one: Span, other: Span) -> Span:
    """Return the range of the larger of two quantities."""
    return Span(max(one.low, other.low), max(one.high, other.high))


def total(spans: Iterable[Span]) -> Span:
    """Return the range of a sum."""
    return sum(spans, Span())
