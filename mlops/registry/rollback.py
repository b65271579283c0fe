"""Takes `champion` back to a version that was champion before."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from mlflow.exceptions import MlflowException

from mlops.registry.aliases import cut_short, write_change
from mlops.registry.client import RegistryClient
from mlops.registry.ledger import Ledger, read_ledger
from mlops.registry.names import ABSENT
from mlops.registry.people import Person
from mlops.registry.spells import Move
from mlops.registry.stored import check_version
from rlft.errors import DamagedError, RefusedError

_FIRST = "approve another version, or remove the alias champion in MLflow to have no champion"


@dataclass(frozen=True, slots=True)
class RolledBack:
    """`champion` of a model was taken back from one version to another; `now` is what it names afterwards.

    That is another one only if another client has moved it at the same moment.
    """

    name: str
    before: str
    version: str
    now: str | None


def roll_back(client: RegistryClient, name: str, to: str | None, reason: str, who: Person) -> RolledBack:
    """Let `champion` name the version `to` again, or without it the version that the champion had replaced.

    That is one write, between two notes. A rollback that was cut short is gone on with. Raises RefusedError if there
    is no champion, if the version is champion already or never was it, and if its files are not whole; and what MLflow
    raises.
    """
    ledger = read_ledger(client, name)
    where = f"models:/{name}"
    if ledger.champion is None:
        raise RefusedError("there is no champion to take back", where=where, fix=f"`rlft history {quote(name)}`")
    target = to or replaced_by(ledger.moves, ledger.champion)
    if target is None:
        raise RefusedError(f"there was no champion before version {ledger.champion}", where=where, fix=_others(ledger))
    if target == ledger.champion:
        raise RefusedError(f"version {target} is the champion already", where=where, fix=_others(ledger))
    if target not in ledger.ever:
        raise RefusedError(f"version {target} was never champion", where=where, fix=_others(ledger))
    _check(client, name, target, _others(ledger, target))
    write_change(client, ledger, cut_short(ledger, "rollback", target), "rollback", target, who, (reason,))
    return RolledBack(name, ledger.champion, target, read_ledger(client, name).champion)


def way_back(ledger: Ledger, version: str) -> str:
    """Return how a version that a person has approved is taken back, or comes back if it was taken back already."""
    command = f"`rlft rollback {quote(ledger.name)}"
    if ledger.champion != version:
        return f"{command} --to {version} --reason TEXT` makes it the champion again"
    first = replaced_by(ledger.moves, version) is None
    return f"it is the first champion: {_FIRST}" if first else f"{command} --reason TEXT` takes it back"


def replaced_by(moves: Sequence[Move], version: str) -> str | None:
    """Return the version in whose place this one was put when it became champion last; `None` if there was none.

    Rollbacks to it do not count, so that one rollback after another goes ever further back.
    """
    for move in reversed(moves):
        if move.to == version and move.before is not None and int(move.before) < int(version):
            return move.before
    return None


def _check(client: RegistryClient, name: str, version: str, fix: str) -> None:
    """Raise RefusedError if a version is not there any more, or its files are not those that were registered."""
    where = f"models:/{name}/{version}"
    try:
        found = client.get_model_version(name, version)
    except MlflowException as cause:
        if cause.error_code not in ABSENT:
            raise
        raise RefusedError("this version was deleted from the registry", where=where, fix=fix) from cause
    with tempfile.TemporaryDirectory() as temporary:
        try:
            check_version(client, found, Path(temporary))
        except DamagedError as damage:
            raise RefusedError(damage.what, where=where, fix=f"{damage.fix}; or {fix}") from damage


def _others(ledger: Ledger, *without: str) -> str:
    """Return which versions `--to` can name."""
    past = sorted(ledger.ever - {ledger.champion or "", *without}, key=int)
    if not past:
        return _FIRST
    return f"name another with --to; champions were the versions {', '.join(past)}"
