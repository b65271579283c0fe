"""Decisions about versions: promoting, approving, rejecting one, taking the champion back, and who was it when and why.

`champion` is moved by one write, after its note and a look that it still names what was compared with. Wherever a
writer is killed, the alias names the old version or the new one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from shlex import quote
from typing import Any

from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException

from mlops.registry.client import RegistryClient
from mlops.registry.logged_model import damage_of
from mlops.registry.names import (
    ABSENT,
    APPROVAL_TAG,
    CHALLENGER,
    CHAMPION,
    CHANGE_TAG,
    COMPARED_HASH_TAG,
    COMPARED_TAG,
    DECIDED_TAG,
    FAILS,
    PROMOTE_TAG,
    REASONS_TAG,
    RUN_NAME_TAG,
    VERDICT_TAG,
    WITHHELD_TAG,
    Change,
    Kind,
    Move,
    Person,
    approval_of,
    approved_by,
    find_moves,
    read_changes,
    rejection_of,
    waits,
    who_am_i,
    why_failed,
    why_not_promoted,
)
from rlft.errors import RefusedError

logger = logging.getLogger(__name__)

_FIRST = "approve another version, or remove the alias champion in MLflow to have no champion"


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the aliases of a registered model name, and how `champion` came to be where it is."""

    name: str
    aliases: Mapping[str, str]
    moves: list[Move]

    @property
    def champion(self) -> str | None:
        """The version that is champion."""
        return self.aliases.get(CHAMPION)

    @property
    def ever(self) -> set[str]:
        """The versions that are champion or were it."""
        return {move.to for move in self.moves if move.to is not None}

    @property
    def newest(self) -> int:
        """The newest version that is champion or was it; 0 if there was none."""
        return max(map(int, self.ever), default=0)


def read_ledger(client: RegistryClient, name: str) -> Ledger:
    """Read what the registry holds of the champions of a model. Raises what MLflow raises."""
    model = client.get_registered_model(name)
    aliases = {alias: str(version) for alias, version in model.aliases.items()}
    return Ledger(name, aliases, find_moves(read_changes(model.tags), aliases.get(CHAMPION)))


def decided_with(champion: str, weights_hash: str, look: str) -> dict[str, str]:
    """Return the tags of a version that say what its decision rested on.

    They are the version and the weights' hash of the champion that it was compared with, both empty without one, and
    the tag of the registered model that holds the look at the gate.
    """
    return {COMPARED_TAG: champion, COMPARED_HASH_TAG: weights_hash, DECIDED_TAG: look}


def set_aliases(client: RegistryClient, version: ModelVersion) -> None:
    """Make a version the `challenger`, and if it has passed its gate the `champion`, unless a newer one is or was that.

    It is withheld, and the tag says why, if the champion is not the one that it was compared with: what is wrong with
    one that was taken back may be wrong with this one, and another may be better. Raises what MLflow raises.
    """
    name, number = version.name, str(version.version)
    ledger = read_ledger(client, name)
    if int(ledger.aliases.get(CHALLENGER, 0)) < int(number):
        client.set_registered_model_alias(name, CHALLENGER, number)
    waits_or_failed = APPROVAL_TAG in version.tags or version.tags.get(PROMOTE_TAG) != "true"
    if waits_or_failed or int(number) <= ledger.newest:
        return
    moved = _of_champion(version, ledger.champion) if COMPARED_TAG in version.tags else None
    if withheld := version.tags.get(WITHHELD_TAG) or moved:
        logger.warning("%s: version %s does not become the champion: %s", name, number, withheld)
        client.set_model_version_tag(name, number, WITHHELD_TAG, withheld)
    else:
        _move_champion(client, ledger, "promotion", number, who_am_i(client.tracking_uri))


def approve(client: RegistryClient, version: ModelVersion, reason: str, who: Person) -> str | None:
    """Make a version that waits for approval the champion; returns what `champion` named before.

    An approval that was cut short is ended. Raises RefusedError if the version does not wait, or if something that its
    decision rested on has moved; and what MLflow raises.
    """
    name, number = version.name, str(version.version)
    ledger = read_ledger(client, name)
    made = approved_by(ledger.moves, number)
    if made is None or approval_of(version.tags) != "pending":
        _check_waits(ledger, version)
        if moved := _what_moved(client, version, ledger.champion):
            fix = "evaluate it anew before it is used"
            raise RefusedError("; ".join(moved), where=f"models:/{name}/{number}", fix=fix)
        _move_champion(client, ledger, "approval", number, who, reason)
    client.set_model_version_tag(name, number, APPROVAL_TAG, "approved")
    return made.before if made else ledger.champion


def reject(client: RegistryClient, version: ModelVersion, reason: str, who: Person) -> None:
    """Note that a version that waits for approval does not become the champion. No alias is moved.

    Raises RefusedError if the version does not wait; and what MLflow raises.
    """
    name, number = version.name, str(version.version)
    _check_waits(read_ledger(client, name), version)
    verdict = Change(kind="rejection", to=number, who=who, at=datetime.now(UTC), why=(reason,))
    client.set_model_version_tag(name, number, VERDICT_TAG, verdict.model_dump_json())
    client.set_model_version_tag(name, number, APPROVAL_TAG, "rejected")


def roll_back(client: RegistryClient, name: str, to: str | None, reason: str, who: Person) -> Change:
    """Let `champion` name the version `to` again, or without it the version that the champion had replaced.

    Raises RefusedError if there is no champion, if the version is champion already or never was it, and if its files
    are not whole; and what MLflow raises.
    """
    ledger = read_ledger(client, name)
    where = f"models:/{name}"
    if ledger.champion is None:
        raise RefusedError("there is no champion to take back", where=where, fix=f"`rlft history {quote(name)}`")
    target = to or _replaced_by(ledger.moves, ledger.champion)
    if target is None:
        raise RefusedError(f"there was no champion before version {ledger.champion}", where=where, fix=_others(ledger))
    if target == ledger.champion:
        raise RefusedError(f"version {target} is the champion already", where=where, fix=_others(ledger))
    if target not in ledger.ever:
        raise RefusedError(f"version {target} was never champion", where=where, fix=_others(ledger))
    _check_files(client, name, target, _others(ledger, target))
    return _move_champion(client, ledger, "rollback", target, who, reason)


def waiting(client: RegistryClient, ledger: Ledger) -> list[str]:
    """Return the numbers of versions that wait for a person, the newest first, at most a thousand."""
    query = f"name = '{ledger.name}' AND tags.`{APPROVAL_TAG}` = 'pending'"
    found = client.search_model_versions(query, max_results=1000, order_by=["version_number DESC"])
    return [str(each.version) for each in found if waits(each.tags, str(each.version), ledger.moves)]


def _move_champion(
    client: RegistryClient, ledger: Ledger, kind: Kind, version: str, who: Person, reason: str = ""
) -> Change:
    """Note a change of `champion`, and make it by one write.

    Raises RefusedError if the alias does not name any more what it named when the change was decided.
    """
    name, before = ledger.name, ledger.champion
    if (now := read_ledger(client, name).champion) != before:
        moved = f"champion was moved meanwhile, from version {before or 'none'} to {now or 'none'}"
        raise RefusedError(moved, where=f"models:/{name}", fix="look at `rlft history`, and decide again")
    why = (reason,) if reason else ()
    change = Change(kind=kind, before=before, to=version, who=who, at=datetime.now(UTC), why=why)
    key = f"{CHANGE_TAG}{change.at:%Y%m%dT%H%M%S.%f}.{version}"
    client.set_registered_model_tag(name, key, change.model_dump_json())
    client.set_registered_model_alias(name, CHAMPION, version)
    return change


def _check_waits(ledger: Ledger, version: ModelVersion) -> None:
    """Raise RefusedError unless a version waits for a person, and say what has become of it."""
    name, number, tags = version.name, str(version.version), version.tags
    where = f"models:/{name}/{number}"
    if waits(tags, number, ledger.moves):
        return
    made, state = approved_by(ledger.moves, number), approval_of(tags)
    if made or state == "approved":
        what = f"this version was approved already{made.change if made else ''}"
        raise RefusedError(what, where=where, fix=_way_back(ledger, number))
    if state == "rejected":
        what = f"this version was rejected{rejection_of(tags) or ''}"
        raise RefusedError(what, where=where, fix="train or evaluate another one")
    if tags.get(PROMOTE_TAG) == "true":
        why, fix = "it was registered without promotion.approval: required", f"`rlft history {quote(name)}`"
    else:
        failed = "; and ".join(reason.removeprefix(FAILS) for reason in why_failed(tags))
        why, fix = f"it has not passed its gate: {failed or 'why is not noted'}", _again(version)
    raise RefusedError(f"this version does not wait for approval: {why}", where=where, fix=fix)


def _again(version: ModelVersion) -> str:
    """Return how the run of a version is decided on once more."""
    return f"`rlft promote {quote(version.tags.get(RUN_NAME_TAG, 'RUN'))}` compares it with the champion of now"


def _what_moved(client: RegistryClient, version: ModelVersion, champion: str | None) -> list[str]:
    """Return sentences about what has changed since a version was decided about; none if nothing has."""
    damage = damage_of(client, version)
    files = f"its files are not those that were evaluated: {damage.what}; {damage.fix}" if damage else None
    return [sentence for sentence in (files, _of_champion(version, champion)) if sentence is not None]


def _of_champion(version: ModelVersion, champion: str | None) -> str | None:
    """Return why the champion is not the one that a version was compared with; `None` if it is."""
    if (compared := version.tags.get(COMPARED_TAG)) is None:
        return f"which champion it was compared with is not noted; {_again(version)}"
    if (champion or "") != compared:
        before = f"with version {compared}" if compared else "when there was no champion"
        now = f"version {champion} is champion" if champion else "there is none"
        return f"it was compared {before}, and now {now}; {_again(version)}"
    return None


def _way_back(ledger: Ledger, version: str) -> str:
    """Return how a version that a person has approved is taken back, or comes back if it was taken back already."""
    command = f"`rlft rollback {quote(ledger.name)}"
    if ledger.champion != version:
        return f"{command} --to {version} --reason TEXT` makes it the champion again"
    first = _replaced_by(ledger.moves, version) is None
    return f"it is the first champion: {_FIRST}" if first else f"{command} --reason TEXT` takes it back"


def _replaced_by(moves: Sequence[Move], version: str) -> str | None:
    """Return the version in whose place this one was put when it became champion last; `None` if there was none.

    Rollbacks to it do not count, so that one rollback after another goes ever further back.
    """
    for move in reversed(moves):
        if move.to == version and move.before is not None and int(move.before) < int(version):
            return move.before
    return None


def _check_files(client: RegistryClient, name: str, version: str, fix: str) -> None:
    """Raise RefusedError if a version is not there any more, or its files are not those that were registered."""
    where = f"models:/{name}/{version}"
    try:
        found = client.get_model_version(name, version)
    except MlflowException as cause:
        if cause.error_code not in ABSENT:
            raise
        raise RefusedError("this version was deleted from the registry", where=where, fix=fix) from cause
    if damage := damage_of(client, found):
        raise RefusedError(damage.what, where=where, fix=f"{damage.fix}; or {fix}") from damage


def _others(ledger: Ledger, *without: str) -> str:
    """Return which versions `--to` can name."""
    past = sorted(ledger.ever - {ledger.champion or "", *without}, key=int)
    if not past:
        return _FIRST
    return f"name another with --to; champions were the versions {', '.join(past)}"


_HOW = {"promotion": "promoted", "approval": "approved", "rollback": "rolled back"}


@dataclass(frozen=True, slots=True)
class Past:
    """A time in which a version was champion, or none was (`version` is `None`).

    It began at `since` and ended at `until`, `None` where another client moved the alias, and of what has not ended.
    `why` has the sentences of the decision at the gate, too; `reason` is what the person has said.
    """

    version: str | None
    since: datetime | None
    until: datetime | None
    how: str
    by: str | None
    why: list[str]
    reason: str


@dataclass(frozen=True, slots=True)
class NotPromoted:
    """A version that was decided about and was never champion, and the sentences that say why."""

    version: str
    why: list[str]


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
        told = asdict(self)
        told["history"] = told.pop("past")
        for each in told["history"]:
            each |= {name: each[name] and each[name].isoformat() for name in ("since", "until")}
        return told


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
    return [NotPromoted(number, why) for number in numbers if (why := without[number]) is not None]


def _past(move: Move, end: Move | None, tags: Mapping[str, Mapping[str, str]]) -> Past:
    change = move.change
    until = end.change.at if end and end.change else None
    if change is None:
        return Past(move.to, None, until, "moved outside rlft", None, [], "")
    gate = tags.get(change.to, {}).get(REASONS_TAG, "").splitlines() if change.kind != "rollback" else []
    who = change.who
    return Past(
        version=change.to,
        since=change.at,
        until=until,
        how=_HOW[change.kind],
        by=who.name if who else None,
        why=[*change.why, *gate],
        reason=" ".join(change.why),
    )
