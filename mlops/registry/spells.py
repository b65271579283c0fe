"""Which versions were champion, one after the other, by the notes of changes and by what the alias names now.

Each prefix of what a writer does, `begin, alias, end`, is read as what has happened: a change that has begun and not
ended took place if the next change, or else the alias now, saw its version. What nobody noted is an alias that another
client moved: it is told as `outside`, as far as it can be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Literal

from mlops.registry.changes import Change

How = Literal["promotion", "approval", "rollback", "outside"]


@dataclass(frozen=True, slots=True)
class Move:
    """`champion` went from version `before` to version `to`; `None` is no version.

    `outside` is a move that no client of rlft has noted. It was made between `earliest` and `latest`, of which either
    is `None` if that is not known; other moves have one time in both. `change` is the note of one that has a note.
    """

    before: str | None
    to: str | None
    how: How
    earliest: datetime | None
    latest: datetime | None
    change: Change | None = None


@dataclass(frozen=True, slots=True)
class Spell:
    """The time in which a version was champion, or none was; `ended` is the move that ended it, `None` for now."""

    version: str | None
    began: Move
    ended: Move | None


def find_moves(changes: Sequence[Change], alias: str | None, asked_at: datetime) -> list[Move]:
    """Return the moves of `champion`, those first that came first.

    `changes` are sorted as `read_changes` does it, and `alias` is what `champion` named at `asked_at`.
    """
    taken = [change for place, change in enumerate(changes) if _took_place(change, changes[place + 1 :], alias)]
    moves: list[Move] = []
    together: list[Change] = []
    for change in taken:
        if any(at_once(change, each) for each in together):
            together.append(change)
            continue
        _close(moves, together, change.before, change.at)
        together = [change]
    _close(moves, together, alias, asked_at)
    return moves


def find_spells(moves: Sequence[Move]) -> list[Spell]:
    """Return the spells that moves make, those first that came first; the last one goes on."""
    return [Spell(move.to, move, end) for move, end in zip_longest(moves, moves[1:])]


def is_open(change: Change, changes: Sequence[Change]) -> bool:
    """Return whether a change was begun, has not ended, and was followed by no other: whoever wrote it may go on."""
    return change.done is None and not any(other.seq > change.seq for other in changes)


def _took_place(change: Change, later: Sequence[Change], alias: str | None) -> bool:
    """Return whether a change was made; of one whose end is not noted, who came next saw what the alias named."""
    if change.done is not None:
        return True
    return (later[0].before if later else alias) == change.to


def at_once(one: Change, other: Change) -> bool:
    """Return whether two changes began where the alias was, and neither saw what the other did."""
    met = one.seq == other.seq or one.id in other.unfinished or other.id in one.unfinished
    return met and one.before == other.before


def _close(moves: list[Move], together: list[Change], seen: str | None, seen_at: datetime) -> None:
    """Add the moves of changes that were made at once, and after them what brought the alias to `seen`."""
    last = [each for each in together if each.to == seen][-1:]  # whoever of them came last has left the alias so
    for each in [*(each for each in together if each not in last), *last]:
        before = moves[-1].to if moves else each.before
        if before != each.to:  # a command that was given twice at once
            moves.append(Move(before, each.to, each.kind, each.when, each.when, each))
    now = moves[-1].to if moves else None
    if seen != now:
        earliest = moves[-1].latest if moves else None
        moves.append(Move(now, seen, "outside", earliest, seen_at))
