"""Checks that what a decision about a version rested on is as it was: its files, the champion, the look at its gate."""

from __future__ import annotations

import tempfile
from pathlib import Path
from shlex import quote

from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException

from mlops.registry.client import RegistryClient
from mlops.registry.gates import noted_look
from mlops.registry.ledger import Ledger, all_versions
from mlops.registry.names import (
    ABSENT,
    APPROVAL_TAG,
    CHAMPION,
    COMPARED_HASH_TAG,
    COMPARED_TAG,
    DECIDED_TAG,
    DONE_TAG,
    HASH_TAG,
    PROMOTE_TAG,
    RUN_NAME_TAG,
    WITHHELD_TAG,
)
from mlops.registry.stored import check_version
from rlft.errors import DamagedError

_ABOUT_TO_MS = 600_000  # from making a version to setting its aliases takes seconds


def decided_with(champion: str, weights_hash: str, look: str) -> dict[str, str]:
    """Return the tags of a version that say what its decision rested on.

    They are the version and the weights' hash of the champion that it was compared with, both empty without one, and
    the tag of the registered model that holds the look at the gate.
    """
    return {COMPARED_TAG: champion, COMPARED_HASH_TAG: weights_hash, DECIDED_TAG: look}


def again(version: ModelVersion) -> str:
    """Return how the run of a version is decided on once more."""
    return f"`rlft promote {quote(version.tags.get(RUN_NAME_TAG, 'RUN'))}` compares it with the champion of now"


def why_withheld(client: RegistryClient, version: ModelVersion) -> str | None:
    """Return why a version that has passed its gate must not become champion by itself; `None` if it may.

    That is where the champion which it was compared with was taken back, by a rollback or by hand: what is wrong with
    that one may be wrong with this one. And where another run has promoted a version meanwhile, which may be better.
    """
    if (compared := version.tags.get(COMPARED_TAG)) is None:
        return None
    now = client.get_registered_model(version.name).aliases.get(CHAMPION)
    if compared and (now is None or int(now) < int(compared)):
        instead = "there is none now" if now is None else f"it is version {now} now"
        gone = f"version {compared}, which was taken back from being the champion: {instead}"
        return f"it was compared with {gone}; {again(version)}"
    if rival := _promoted_meanwhile(client, version, int(compared or 0), int(now or 0)):
        before = f"version {compared}" if compared else "no champion"
        return f"it was compared with {before}, and version {rival} has passed its gate meanwhile; {again(version)}"
    return None


def _promoted_meanwhile(client: RegistryClient, version: ModelVersion, compared: int, now: int) -> int | None:
    """Return a version between the one that another was compared with and that one itself, which is `now` champion or
    about to be: made, and its aliases not set yet. One whose run was killed then is forgotten after a while.
    """
    own = int(version.version)
    if compared < now < own:
        return now
    found = [each for each in all_versions(client, f"name = '{version.name}'") if compared < int(each.version) < own]
    rivals = [
        int(each.version)
        for each in found
        if each.tags.get(PROMOTE_TAG) == "true"
        and not {DONE_TAG, APPROVAL_TAG, WITHHELD_TAG} & set(each.tags)
        and version.creation_timestamp - each.creation_timestamp < _ABOUT_TO_MS
    ]
    return max(rivals, default=None)


def what_moved(client: RegistryClient, version: ModelVersion, ledger: Ledger) -> list[str]:
    """Return sentences about what has changed since a version was decided about; none if nothing has.

    Raises what MLflow raises.
    """
    found = [_of_files(client, version), _of_champion(client, version, ledger), _of_look(client, version)]
    return [sentence for sentence in found if sentence is not None]


def _of_files(client: RegistryClient, version: ModelVersion) -> str | None:
    with tempfile.TemporaryDirectory() as temporary:
        try:
            check_version(client, version, Path(temporary))
        except DamagedError as damage:
            return f"its files are not those that were evaluated: {damage.what}; {damage.fix}"
    return None


def _of_champion(client: RegistryClient, version: ModelVersion, ledger: Ledger) -> str | None:
    compared, expected = version.tags.get(COMPARED_TAG), version.tags.get(COMPARED_HASH_TAG)
    if compared is None or expected is None:
        return f"which champion it was compared with is not noted; {again(version)}"
    if (ledger.champion or "") != compared:
        before = f"with version {compared}" if compared else "when there was no champion"
        now = f"version {ledger.champion} is champion" if ledger.champion else "there is none"
        return f"it was compared {before}, and now {now}; {again(version)}"
    if compared and _hash(client, version.name, compared) != expected:
        other = f"version {compared}, the champion, has other weights than those that it was compared with"
        return f"{other}; {again(version)}"
    return None


def _hash(client: RegistryClient, name: str, version: str) -> str | None:
    try:
        return client.get_model_version(name, version).tags.get(HASH_TAG)
    except MlflowException as cause:
        if cause.error_code not in ABSENT:
            raise
        return None


def _of_look(client: RegistryClient, version: ModelVersion) -> str | None:
    """Return why the look at the gate does not count: whoever removes its tag begins to count anew."""
    tag = version.tags.get(DECIDED_TAG)
    look = noted_look(client.get_registered_model(version.name).tags, tag) if tag else None
    if look is None:
        return f"the look at its gate is not among those that the registry has counted; {again(version)}"
    if not look.is_allowed:
        return "by its gate too many models had been decided on: draw a fresh gate (another tasks.seed, or new tasks)"
    return None
