"""Decisions about versions: promoting, approving, rejecting one, taking the champion back, and who was it when and why.

Each change of `champion` is a tag of the registered model, `mlflow.rlft.change.<time>.<version>`: from which version to
which, who, when and why. It is written before the alias, which is moved by one write, after a look that it still names
what was compared with. So wherever a writer is killed, the alias names the old version or the new one, and what the
next note, or else the alias, began from says whether a change was made.
"""

from __future__ import annotations

import logging
import os
import pwd
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from shlex import quote
from typing import Annotated, Literal

from mlflow.entities.model_registry import ModelVersion
from pydantic import AwareDatetime, BaseModel, ConfigDict, StringConstraints

from mlops.registry.client import RegistryClient, unless_absent
from mlops.registry.logged_model import damage_of
from mlops.registry.names import (
    APPROVAL_TAG,
    CHALLENGER,
    CHAMPION,
    CHANGE_TAG,
    COMPARED_HASH_TAG,
    COMPARED_TAG,
    DECIDED_TAG,
    PROMOTE_TAG,
    REASONS_TAG,
    RUN_NAME_TAG,
    VERDICT_TAG,
    WITHHELD_TAG,
    failing,
)
from rlft.errors import RefusedError
from rlft.evaluation.promotion import Approval

logger = logging.getLogger(__name__)
Kind = Literal["promotion", "approval", "rollback", "rejection"]
VersionNumber = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,9}$")]
_STATES: dict[str, Approval] = {"pending": "pending", "approved": "approved", "rejected": "rejected"}
_HOW = {"promotion": "promoted", "approval": "approved", "rollback": "rolled back"}


class Change(BaseModel):
    """What was decided about the version `to`: by whom, when in UTC by the writer's clock, and why, if that was said.

    `before` is what `champion` named then, `None` if nothing. A rejection moves no alias, and is a tag of the version.
    """

    model_config = ConfigDict(frozen=True)

    kind: Kind
    before: VersionNumber | None = None
    to: VersionNumber
    who: str
    at: AwareDatetime
    why: str = ""

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f" by {self.who}, {self.at:%Y-%m-%d %H:%M} UTC{why}"


@dataclass(frozen=True, slots=True)
class Move:
    """`champion` went from version `before` to `to`, where `None` is none. A move of other clients has no `change`."""

    before: str | None
    to: str | None
    change: Change | None


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

    def approval(self, version: str) -> Move | None:
        """Return the last move by which an approval made a version the champion."""
        found = [move for move in self.moves if move.change and (move.change.kind, move.to) == ("approval", version)]
        return found[-1] if found else None

    def waits(self, version: ModelVersion) -> bool:
        """Return whether a version waits for a person; one whose approval was cut short before its tag does not."""
        return approval_of(version.tags) == "pending" and self.approval(str(version.version)) is None


def read_ledger(client: RegistryClient, name: str) -> Ledger:
    """Read what the registry holds of the champions of a model. Raises what MLflow raises."""
    model = client.get_registered_model(name)
    aliases = {alias: str(version) for alias, version in model.aliases.items()}
    changes = [Change.model_validate_json(kept) for key, kept in model.tags.items() if key.startswith(CHANGE_TAG)]
    return Ledger(name, aliases, find_moves(sorted(changes, key=lambda each: each.at), aliases.get(CHAMPION)))


def find_moves(changes: Sequence[Change], champion: str | None) -> list[Move]:
    """Return the moves of `champion`, which names this version now, those first that came first.

    A change was not made if the alias was seen afterwards where it began. Those that nobody noted are told, too.
    """
    moves: list[Move] = []

    def go(to: str | None, change: Change | None = None) -> None:
        before = moves[-1].to if moves else None
        if to != before:
            moves.append(Move(before, to, change))

    seen = [*(each.before for each in changes[1:]), champion]
    for change, after in zip(changes, seen, strict=False):
        go(change.before)
        if after != change.before:
            go(change.to, change)
    go(champion)
    return moves


def approval_of(tags: Mapping[str, str]) -> Approval:
    """Return what the tags of a version say about its approval; empty where nobody is to decide."""
    return _STATES.get(tags.get(APPROVAL_TAG, ""), "")


def who_am_i(tracking_uri: str) -> str:
    """Return who decides: at a server the user whose name and password MLflow sends, else the user of this machine."""
    if tracking_uri.startswith(("http://", "https://")) and (name := os.environ.get("MLFLOW_TRACKING_USERNAME")):
        return name
    try:  # not `getpass.getuser`, which believes what the environment says
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


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
    if waits_or_failed or int(number) <= max(map(int, ledger.ever), default=0):
        return
    moved = _moved(version, ledger.champion)
    if withheld := version.tags.get(WITHHELD_TAG) or (moved and f"{moved}; {_again(version)}"):
        logger.warning("%s: version %s does not become the champion: %s", name, number, withheld)
        client.set_model_version_tag(name, number, WITHHELD_TAG, withheld)
    else:
        _move_champion(client, ledger, "promotion", number, who_am_i(client.tracking_uri))


def approve(client: RegistryClient, version: ModelVersion, reason: str, who: str) -> str | None:
    """Make a version that waits for approval the champion; returns what `champion` named before.

    An approval that was cut short is ended. Raises RefusedError if the version does not wait, or if something that its
    decision rested on has moved; and what MLflow raises.
    """
    name, number = version.name, str(version.version)
    ledger = read_ledger(client, name)
    made = ledger.approval(number)
    if made is None or approval_of(version.tags) != "pending":
        _check_waits(ledger, version)
        if moved := _moved(version, ledger.champion):
            raise RefusedError(moved, where=f"models:/{name}/{number}", fix=_again(version))
        _check_files(client, name, number, "evaluate it anew before it is used")
        _move_champion(client, ledger, "approval", number, who, reason)
    client.set_model_version_tag(name, number, APPROVAL_TAG, "approved")
    return made.before if made else ledger.champion


def reject(client: RegistryClient, version: ModelVersion, reason: str, who: str) -> None:
    """Note that a version that waits for approval does not become the champion. No alias is moved.

    Raises RefusedError if the version does not wait; and what MLflow raises.
    """
    name, number = version.name, str(version.version)
    _check_waits(read_ledger(client, name), version)
    verdict = Change(kind="rejection", to=number, who=who, at=datetime.now(UTC), why=reason)
    client.set_model_version_tag(name, number, VERDICT_TAG, verdict.model_dump_json())
    client.set_model_version_tag(name, number, APPROVAL_TAG, "rejected")


def roll_back(client: RegistryClient, name: str, to: str | None, reason: str, who: str) -> Change:
    """Let `champion` name the version `to` again, or without it the version that the champion had replaced.

    Raises RefusedError if there is no champion, if the version is champion already or never was it, and if its files
    are not whole; and what MLflow raises.
    """
    ledger = read_ledger(client, name)
    target, past = to or _replaced_by(ledger), ledger.ever - {ledger.champion}
    if ledger.champion is None:
        fix = f"`rlft history {quote(name)}` says what came of its versions"
        raise RefusedError("there is no champion", where=f"models:/{name}", fix=fix)
    if target not in past:
        what = f"version {target} was not champion before" if target else "there was no champion before"
        raise RefusedError(what, where=f"models:/{name}", fix=_others(past))
    _check_files(client, name, target, _others(past - {target}))
    return _move_champion(client, ledger, "rollback", target, who, reason)


def _move_champion(
    client: RegistryClient, ledger: Ledger, kind: Kind, version: str, who: str, reason: str = ""
) -> Change:
    """Note a change of `champion`, and make it by one write.

    Raises RefusedError if the alias does not name any more what it named when the change was decided.
    """
    name, before = ledger.name, ledger.champion
    if (now := read_ledger(client, name).champion) != before:
        moved = f"champion was moved meanwhile, from {_named(before)} to {_named(now)}"
        raise RefusedError(moved, where=f"models:/{name}", fix="look at `rlft history`, and decide again")
    change = Change(kind=kind, before=before, to=version, who=who, at=datetime.now(UTC), why=reason)
    key = f"{CHANGE_TAG}{change.at:%Y%m%dT%H%M%S.%f}.{version}"
    client.set_registered_model_tag(name, key, change.model_dump_json())
    client.set_registered_model_alias(name, CHAMPION, version)
    return change


def _check_waits(ledger: Ledger, version: ModelVersion) -> None:
    """Raise RefusedError unless a version waits for a person."""
    if ledger.waits(version):
        return
    state = "approved" if ledger.approval(str(version.version)) else approval_of(version.tags)
    what = f"this version was {state} already" if state else "this version does not wait for approval"
    fix = f"`rlft history {quote(ledger.name)}` says why"
    raise RefusedError(what, where=f"models:/{ledger.name}/{version.version}", fix=fix)


def _again(version: ModelVersion) -> str:
    """Return how the run of a version is decided on once more."""
    return f"`rlft promote {quote(version.tags.get(RUN_NAME_TAG, 'RUN'))}` compares it with the champion of now"


def _moved(version: ModelVersion, champion: str | None) -> str | None:
    """Return in a sentence that the champion is not the one that a version was compared with; `None` if it is."""
    compared = version.tags.get(COMPARED_TAG, champion or "")
    if (champion or "") == compared:
        return None
    return f"it was compared with {_named(compared)}, and now {_named(champion)} is champion"


def _named(version: str | None) -> str:
    return f"version {version}" if version else "no version"


def _replaced_by(ledger: Ledger) -> str | None:
    """Return the version in whose place the champion was put when it became that last; `None` if there was none.

    Rollbacks to it do not count, so that one rollback after another goes ever further back.
    """
    for move in reversed(ledger.moves):
        if move.to == ledger.champion and move.to and move.before and int(move.before) < int(move.to):
            return move.before
    return None


def _check_files(client: RegistryClient, name: str, version: str, fix: str) -> None:
    """Raise RefusedError if a version is not there any more, or its files are not those that were registered."""
    found = unless_absent(lambda: client.get_model_version(name, version))
    damage = damage_of(client, found) if found else None
    if damage or not found:
        what = damage.what if damage else "this version was deleted from the registry"
        fix = f"{damage.fix}; or {fix}" if damage else fix
        raise RefusedError(what, where=f"models:/{name}/{version}", fix=fix) from damage


def _others(past: set[str]) -> str:
    """Return which versions `--to` can name."""
    if not past:
        return "approve another version, or remove the alias champion in MLflow to have no champion"
    return f"name another with --to; champions were the versions {', '.join(sorted(past, key=int))}"


class Past(BaseModel):
    """A time in which a version was champion, or none was (`version` is `None`).

    It began at `since` and ended at `until`, `None` where another client moved the alias, and of what has not ended.
    `why` has the sentences of the decision at the gate, too; `reason` is what the person has said.
    """

    version: str | None
    since: datetime | None = None
    until: datetime | None
    how: str = "moved outside rlft"
    by: str | None = None
    why: list[str] = []
    reason: str = ""


class NotPromoted(BaseModel):
    """A version that was decided about and was never champion, and the sentences that say why."""

    version: str
    why: list[str]


class History(BaseModel):
    """The history of a registered model's champion, the first one first, and the version that is it now.

    `waiting` are the versions that wait for a person, and `not_promoted` those that were decided about and never were
    champion, the newest first.
    """

    name: str
    champion: str | None
    history: list[Past]
    waiting: list[str]
    not_promoted: list[NotPromoted]


def read_history(client: RegistryClient, name: str) -> History:
    """Return the history of a registered model. Raises what MLflow raises."""
    ledger = read_ledger(client, name)
    versions = sorted(client.all_versions(f"name = '{name}'"), key=lambda each: -int(each.version))
    tags = {str(each.version): each.tags for each in versions}
    return History(
        name=name,
        champion=ledger.champion,
        history=[_past(move, end, tags) for move, end in zip_longest(ledger.moves, ledger.moves[1:])],
        waiting=[str(each.version) for each in versions if ledger.waits(each)],
        not_promoted=[
            NotPromoted(version=number, why=why)
            for number, own in tags.items()
            if number not in ledger.ever and (why := _why_not_promoted(own)) is not None
        ],
    )


def _why_not_promoted(tags: Mapping[str, str]) -> list[str] | None:
    """Return why the version with these tags was not promoted; `None` of one that was, that waits, or is not rlft's."""
    if tags.get(PROMOTE_TAG) == "false":
        reasons = tags.get(REASONS_TAG, "").splitlines()
        return failing(reasons) or reasons
    if approval_of(tags) == "rejected":
        return [f"rejected{Change.model_validate_json(tags[VERDICT_TAG]) if VERDICT_TAG in tags else ''}"]
    return [tags[WITHHELD_TAG]] if WITHHELD_TAG in tags else None


def _past(move: Move, end: Move | None, tags: Mapping[str, Mapping[str, str]]) -> Past:
    change, until = move.change, end.change.at if end and end.change else None
    if change is None:
        return Past(version=move.to, until=until)
    gate = tags.get(change.to, {}).get(REASONS_TAG, "").splitlines() if change.kind != "rollback" else []
    return Past(
        version=change.to,
        since=change.at,
        until=until,
        how=_HOW[change.kind],
        by=change.who,
        why=[*filter(None, [change.why]), *gate],
        reason=change.why,
    )
