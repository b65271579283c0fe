"""Who was champion from when to when, and why, as `rlft history` tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Any

from mlops.registry.changes import Move, why_not_again, why_not_promoted
from mlops.registry.client import RegistryClient
from mlops.registry.decisions import Ledger, read_ledger, waiting
from mlops.registry.names import REASONS_TAG

_HOW = {"promotion": "promoted", "approval": "approved", "rollback": "rolled back"}


@dataclass(frozen=True, slots=True)
class Past:
    """A time in which a version was champion, or none was (`version` is `None`).

    It began at `since` and ended at `until`, `None` where another client moved the alias, and of what has not ended.
    `by` is a name, with whether MLflow has vouched for it in `verified`. `why` has the sentences of the decision at the
    gate, too; `reason` is what the person has said.
    """

    version: str | None
    since: datetime | None
    until: datetime | None
    how: str
    by: str | None
    verified: bool
    why: list[str]
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return it as `rlft history --json` prints it."""
        times = {name: time and time.isoformat() for name, time in (("since", self.since), ("until", self.until))}
        return asdict(self) | times


@dataclass(frozen=True, slots=True)
class NotPromoted:
    """A version that was decided about and was never champion, and the sentences that say why.

    `again` are those of its newest comparison (`rlft promote`), if that has found something else.
    """

    version: str
    why: list[str]
    again: list[str]


@dataclass(frozen=True, slots=True)
class History:
    """The past of a registered model's champion, the first one first, and the version that is it now.

    `waiting` are the versions that wait for a person, and `not_promoted` those that were decided about and never were
    champion, the newest first.
    """

    name: str
    champion: str | None
    past: list[Past]
    waiting: list[str]
    not_promoted: list[NotPromoted]

    def as_json(self) -> dict[str, Any]:
        """Return it as `rlft history --json` prints it."""
        return {
            "name": self.name,
            "champion": self.champion,
            "waiting": self.waiting,
            "not_promoted": [asdict(each) for each in self.not_promoted],
            "history": [each.as_json() for each in self.past],
        }


def read_history(client: RegistryClient, name: str) -> History:
    """Return the history of a registered model. Raises what MLflow raises."""
    ledger = read_ledger(client, name)
    tags = {str(each.version): each.tags for each in client.all_versions(f"name = '{name}'")}
    past = [_past(move, end, tags) for move, end in zip_longest(ledger.moves, ledger.moves[1:])]
    return History(name, ledger.champion, past, waiting(client, ledger), _not_promoted(ledger, tags))


def _not_promoted(ledger: Ledger, tags: Mapping[str, Mapping[str, str]]) -> list[NotPromoted]:
    """Return the versions that were not promoted; one that another client has made champion is in the history."""
    without = {number: why_not_promoted(own) for number, own in tags.items()}
    numbers = sorted(without.keys() - ledger.ever, key=int, reverse=True)
    return [
        NotPromoted(number, why, why_not_again(tags[number]))
        for number in numbers
        if (why := without[number]) is not None
    ]


def _past(move: Move, end: Move | None, tags: Mapping[str, Mapping[str, str]]) -> Past:
    change = move.change
    until = end.change.at if end and end.change else None
    if change is None:
        return Past(move.to, None, until, "moved outside rlft", None, False, [], "")
    gate = tags.get(change.to, {}).get(REASONS_TAG, "").splitlines() if change.kind != "rollback" else []
    said = [line for line in change.why if line not in gate]  # an earlier rlft noted both
    who = change.who
    return Past(
        version=change.to,
        since=change.at,
        until=until,
        how=_HOW[change.kind],
        by=who.name if who else None,
        verified=bool(who and who.verified),
        why=[*said, *gate],
        reason=" ".join(said),
    )
