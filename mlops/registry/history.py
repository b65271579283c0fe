"""Who was champion from when to when, and why, as `rlft history` tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mlops.registry.client import RegistryClient
from mlops.registry.ledger import Ledger, all_versions, read_ledger
from mlops.registry.names import REASONS_TAG
from mlops.registry.reasons import why_not_again, why_not_promoted
from mlops.registry.spells import Move, Spell, find_spells
from mlops.registry.verdicts import waiting

_HOW = {"promotion": "promoted", "approval": "approved", "rollback": "rolled back"}
_OUTSIDE = "moved outside rlft"


@dataclass(frozen=True, slots=True)
class Past:
    """A time in which a version was champion, or none was (`version` is `None`).

    It began between `since_earliest` and `since`, and ended between `until_earliest` and `until`, which are the same
    time where a client of rlft has noted it; `None` is a time that is not known, and as an end one that has not come.
    `by` is a name, with whether MLflow has vouched for it in `is_verified`. `why` has the sentences of the decision at
    the gate, too; `reason` is what the person has said.
    """

    version: str | None
    since_earliest: datetime | None
    since: datetime | None
    until_earliest: datetime | None
    until: datetime | None
    how: str
    by: str | None
    is_verified: bool
    why: tuple[str, ...]
    reason: str
    is_confirmed: bool

    def as_json(self) -> dict[str, Any]:
        """Return it as `rlft history --json` prints it."""
        times = {name: getattr(self, name) for name in ("since_earliest", "since", "until_earliest", "until")}
        return {
            "version": self.version,
            **{name: time.isoformat() if time else None for name, time in times.items()},
            "how": self.how,
            "by": self.by,
            "verified": self.is_verified,
            "why": list(self.why),
            "reason": self.reason,
            "confirmed": self.is_confirmed,
        }


@dataclass(frozen=True, slots=True)
class NotPromoted:
    """A version that was decided about and was never champion, and the sentences that say why.

    `again` are those of its newest comparison (`rlft promote`), if that has found something else.
    """

    version: str
    why: tuple[str, ...]
    again: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """The past of a registered model's champion, the first one first, and the version that is it now.

    `waiting` are the versions that wait for a person, and `not_promoted` those that were decided about and never were
    champion, the newest first.
    """

    name: str
    champion: str | None
    past: tuple[Past, ...]
    waiting: tuple[str, ...] = ()
    not_promoted: tuple[NotPromoted, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it as `rlft history --json` prints it."""
        past = [each.as_json() for each in self.past]
        return {
            "name": self.name,
            "champion": self.champion,
            "waiting": list(self.waiting),
            "not_promoted": [
                {"version": each.version, "why": list(each.why), "again": list(each.again)}
                for each in self.not_promoted
            ],
            "history": past,
        }


def read_history(client: RegistryClient, name: str) -> History:
    """Return the history of a registered model. Raises what MLflow raises."""
    ledger = read_ledger(client, name)
    tags = {str(each.version): each.tags for each in all_versions(client, f"name = '{name}'")}
    past = tuple(_told(spell, tags) for spell in find_spells(ledger.moves))
    return History(name, ledger.champion, past, tuple(waiting(client, name, ledger)), _not_promoted(ledger, tags))


def _not_promoted(ledger: Ledger, tags: Mapping[str, Mapping[str, str]]) -> tuple[NotPromoted, ...]:
    """Return the versions that were not promoted; one that another client has made champion is in the history."""
    without = {number: why_not_promoted(own) for number, own in tags.items()}
    numbers = sorted(without.keys() - ledger.ever, key=int, reverse=True)
    return tuple(
        NotPromoted(number, tuple(why), tuple(why_not_again(tags[number])))
        for number in numbers
        if (why := without[number]) is not None
    )


def _told(spell: Spell, tags: Mapping[str, Mapping[str, str]]) -> Past:
    change, end = spell.began.change, spell.ended
    of_gate = tags.get(spell.version or "", {}).get(REASONS_TAG, "").splitlines()
    by_person = change.why if change and change.kind != "promotion" else ()
    who = change.who if change else None
    return Past(
        version=spell.version,
        since_earliest=spell.began.earliest,
        since=spell.began.latest,
        until_earliest=end.earliest if end else None,
        until=end.latest if end else None,
        how=_how(spell.began),
        by=who.name if who else None,
        is_verified=bool(who and who.verified),
        why=change.why if change else (),
        reason=" ".join(line for line in by_person if line not in of_gate),
        is_confirmed=change is not None and change.done is not None,
    )


def _how(move: Move) -> str:
    return _HOW.get(move.how, _OUTSIDE)
