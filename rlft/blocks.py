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


Block = Headline | Caution | Bullets | Table | str
