"""What is told of a result, block by block; a terminal, a page and Markdown show each in their own way.

Markdown is that of GitHub, which MLflow renders, too; text from anywhere is shown in it as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rlft.texts.characters import visible


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

    >>> from rlft.texts.blocks import change
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

# What Markdown and HTML would take as theirs anywhere in a line; and at its start, where lists and titles begin.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|!~&$@])")
_START = re.compile(r"^([-+=:])|^([0-9]+)([.)])(?=\s|$)")


def plain(text: str, longest: int = 2000) -> str:
    """Return a text that Markdown shows as it is, in one line, cut off after so many characters."""
    line = " ".join(visible(text[: longest + 1]).split())
    line = line if len(text) <= longest else f"{line[:longest]} ..."
    line = _MARKUP.sub(r"\\\1", line)
    return _START.sub(lambda found: f"\\{found[1]}" if found[1] else f"{found[2]}\\{found[3]}", line)


def fenced(text: str, language: str = "text", longest: int = 20_000) -> str:
    """Return a text of several lines as a block of code, which no fence within it can end."""
    shown = visible(text[:longest]) + ("\n..." if len(text) > longest else "")
    ticks = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, ticks + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def bullets(texts: Iterable[str]) -> str:
    """Return plain texts as a list, one a line."""
    return "\n".join(f"- {plain(text)}" for text in texts)


def table_text(table: Table) -> str:
    """Return a table under its title, if it has one."""
    columns, *rows = [f"| {' | '.join(map(plain, row))} |" for row in (table.columns, *table.rows)]
    title = [f"{plain(table.title)}:", ""] if table.title else []
    return "\n".join([*title, columns, "|" + " --- |" * len(table.columns), *rows])


def paragraph(block: Block) -> str:
    """Return a block as a paragraph, or several lines that stand together."""
    match block:
        case Headline(text):
            return f"**{plain(text)}**"
        case Caution(text):
            return f"> {plain(text)}"
        case Bullets(text, items):
            return "\n".join([plain(text), *([bullets(items)] if items else [])])
        case Table():
            return table_text(block)
        case _:
            return lines(block)


def lines(text: str) -> str:
    """Return a text; of several lines what follows the first one keeps its breaks and columns, as a block of code."""
    first, _, rest = text.partition("\n")
    return f"{plain(first)}\n\n{fenced(rest)}" if rest else plain(first)
