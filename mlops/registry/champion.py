"""The champion in the MLflow registry: which version it is, and its policy folder, downloaded and checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

from mlflow.exceptions import MlflowException

from mlops.registry.client import RegistryClient
from mlops.registry.names import ABSENT, CHAMPION, FORMAT_TAG, HASH_TAG, RUN_TAG
from mlops.registry.stored import check_version
from rlft.errors import TrackerError
from rlft.formats import VERSION


@dataclass(frozen=True, slots=True)
class ChampionVersion:
    """The version in use; `run_id` is the MLflow run that made it, `policy_folder` is set once it is downloaded."""

    name: str
    version: str
    weights_hash: str
    run_id: str | None
    policy_folder: Path | None = None


def current_champion(tracking_uri: str, name: str, registry_uri: str | None = None) -> ChampionVersion | None:
    """Return the version that `champion` names; `None` before the first promotion.

    Raises TrackerError if the alias names a version that does not exist any more, FormatVersionError for one in a
    format that is not read, what MLflow raises, and ConnectionError for an answer to something else.
    """
    client = RegistryClient(tracking_uri, registry_uri)
    try:
        model = client.get_registered_model(name)
    except MlflowException as cause:
        if cause.error_code not in ABSENT:
            raise
        return None
    _check_answer(model.name, name)
    if (number := model.aliases.get(CHAMPION)) is None:
        return None
    try:
        found = client.get_model_version(name, str(number))
    except MlflowException as cause:
        if cause.error_code not in ABSENT:
            raise
        raise TrackerError(
            f"the alias {CHAMPION!r} names version {number}, which does not exist any more",
            where=f"models:/{name}",
            fix=f"`rlft rollback {quote(name)} --to VERSION` lets it name an earlier champion, or remove the alias or "
            "give it to another version, on the page of the model in MLflow (`rlft ui`)",
        ) from cause
    VERSION.check(found.tags.get(FORMAT_TAG), where=f"models:/{name}@{CHAMPION}")
    _check_answer((found.name, str(found.version)), (name, str(number)))
    return ChampionVersion(name, str(number), found.tags.get(HASH_TAG, ""), found.tags.get(RUN_TAG))


def _check_answer(said: object, asked: object) -> None:
    """Raise ConnectionError unless the registry has answered what it was asked.

    MLflow makes an object without a name of an empty answer, as proxies give: there would be no champion then.
    """
    if said != asked:
        raise ConnectionError(f"it answered for {said!r}, and was asked for {asked!r}")


def download_champion(
    tracking_uri: str, name: str, destination: Path, registry_uri: str | None = None
) -> ChampionVersion | None:
    """Download the champion's policy folder to `destination`; returns `None` if there is no champion.

    Raises DamagedError if its files are gone or not what was registered, and what MLflow raises.
    """
    champion = current_champion(tracking_uri, name, registry_uri)
    if champion is None:
        return None
    client = RegistryClient(tracking_uri, registry_uri)
    destination.mkdir(parents=True, exist_ok=True)
    folder = check_version(client, client.get_model_version(name, champion.version), destination)
    return replace(champion, policy_folder=folder)
