"""Moves the aliases of a registered model: forward to newer versions, each change of `champion` noted.

Whoever writes at the same time, and wherever a writer is killed, `champion` names the version that it named before or
the one that it was to name. MLflow has no write that depends on what was read. So each writer looks once more when it
has ended: of those that wrote at once the last to end sees what all of them did.
"""

from __future__ import annotations

import logging

from mlops.registry.changes import Change, Kind, in_order, next_change, note_begin, note_end
from mlops.registry.client import RegistryClient
from mlops.registry.ledger import Ledger, read_ledger
from mlops.registry.names import CHALLENGER, CHAMPION, DONE_TAG
from mlops.registry.people import Person
from mlops.registry.retries import retried
from mlops.registry.spells import at_once, is_open

logger = logging.getLogger(__name__)
_LOOKS = 20  # at what others have written meanwhile; each waits for one more writer


def move_aliases(
    client: RegistryClient,
    name: str,
    version: int,
    *,
    promote: bool,
    who: Person | None = None,
    why: tuple[str, ...] = (),
) -> None:
    """Make a version the `challenger`, and the `champion` too if `promote`, unless a newer one is or was it already.

    An alias that a newer version has had stays where it is: if it names an older one, a person has moved it back.
    `who` and `why` are noted with the change of `champion`. Raises MlflowException when that fails five times.
    """
    newest = retried(_newest_done)(client, name, version) == version
    _set_aliases(client, name, version, newest, promote, who, why)


@retried
def _set_aliases(
    client: RegistryClient,
    name: str,
    version: int,
    challenger: bool,
    champion: bool,
    who: Person | None,
    why: tuple[str, ...],
) -> None:
    if challenger:
        _move_challenger(client, name, version)
    if champion:
        put_forward(client, name, version, "promotion", who, why)
    client.set_model_version_tag(name, str(version), DONE_TAG, "true")
    # Between reading and setting another run may have set it to a newer version. That run had tagged its version when
    # it looked a last time: either it has seen and mended this, or its tag is seen here.
    while challenger and _move_challenger(client, name, _newest_done(client, name, version)):
        logger.info("%s: %s was moved back by another run, and is moved forward again", name, CHALLENGER)


def _move_challenger(client: RegistryClient, name: str, version: int) -> bool:
    """Let `challenger` name a version if it names none or an older one; returns whether it did so."""
    now = client.get_registered_model(name).aliases.get(CHALLENGER)
    if now is not None and int(now) >= version:
        return False
    client.set_registered_model_alias(name, CHALLENGER, str(version))
    return True


def _newest_done(client: RegistryClient, name: str, version: int) -> int:
    """Return the newest version whose run has set its aliases; `version` has."""
    query = f"name = '{name}' AND tags.`{DONE_TAG}` = 'true'"
    found = client.search_model_versions(query, max_results=1, order_by=["version_number DESC"])
    return max([version, *(int(each.version) for each in found)])


def put_forward(
    client: RegistryClient, name: str, version: int, kind: Kind, who: Person | None, why: tuple[str, ...]
) -> None:
    """Make a version `champion`, unless a newer one is or was it; a change of this kind that was cut short is ended.

    Raises what MLflow raises.
    """
    ledger = read_ledger(client, name)
    change = cut_short(ledger, kind, str(version))
    if change is not None and ledger.champion == change.to:
        note_end(client, name, change)
        _look_again(client, name, change)
        return
    if version <= ledger.newest:
        return
    write_change(client, ledger, change, kind, str(version), who, why)


def cut_short(ledger: Ledger, kind: Kind, version: str) -> Change | None:
    """Return the last change of this kind to this version that was begun, and which no other has followed."""
    own = [each for each in ledger.changes if (each.kind, each.to) == (kind, version) and is_open(each, ledger.changes)]
    return own[-1] if own else None


def write_change(
    client: RegistryClient,
    ledger: Ledger,
    begun: Change | None,
    kind: Kind,
    version: str,
    who: Person | None,
    why: tuple[str, ...],
) -> Change:
    """Let `champion` name a version, between the notes of its beginning and its end; returns the change.

    `begun` is one that was cut short before it wrote the alias. It is gone on with if it began where the alias is, and
    the same person wants it for the same reasons.
    """
    if begun is None or (begun.before, begun.who, begun.why) != (ledger.champion, who, why):
        begun = next_change(ledger.changes, kind, ledger.champion, version, who, why)
        note_begin(client, ledger.name, begun)
    client.set_registered_model_alias(ledger.name, CHAMPION, version)
    note_end(client, ledger.name, begun)
    _look_again(client, ledger.name, begun)
    return begun


def _look_again(client: RegistryClient, name: str, own: Change) -> None:
    """Let `champion` name what it is to name after all changes that were made while this one was.

    This one may have overwritten them, as its writer had not seen them. They count in the order of `in_order`.
    """
    for _ in range(_LOOKS):
        ledger = read_ledger(client, name)
        others = [each for each in ledger.changes if each.id != own.id and (each.seq >= own.seq or at_once(each, own))]
        ended = [
            each.model_copy(update={"seq": own.seq}) if at_once(each, own) else each for each in others if each.done
        ]
        last = in_order([own, *ended])[-1]
        goes_on = any(each.seq > last.seq for each in others)
        if goes_on or ledger.champion == last.to or ledger.champion not in {own.to, *(each.to for each in ended)}:
            return
        client.set_registered_model_alias(name, CHAMPION, last.to)
        logger.info("%s: %s was changed by two at once, and names version %s", name, CHAMPION, last.to)
