"""The champion in the MLflow registry: which version it is, and its policy folder, downloaded and checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts
from mlflow.exceptions import MlflowException

from mlops.registry.logged_model import HASH_TAG
from mlops.registry.versions import CHAMPION, RUN_TAG
from rlft.errors import StorageError

ABSENT = {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}  # errors that mean that the name has no versions


@dataclass(frozen=True, slots=True)
class ChampionVersion:
    """The version in use; `run_id` is the MLflow run that made it, `policy_folder` is set once it is downloaded."""

    name: str
    version: str
    weights_hash: str
    run_id: str | None
    policy_folder: Path | None = None


def current_champion(tracking_uri: str, name: str, registry_uri: str | None = None) -> ChampionVersion | None:
    """Return the version that `champion` names; `None` before the first promotion. Raises what MLflow raises."""
    client = MlflowClient(tracking_uri=tracking_uri, registry_uri=registry_uri or tracking_uri)
    try:
        number = client.get_registered_model(name).aliases.get(CHAMPION)
    except MlflowException as cause:
        if cause.error_code not in ABSENT:
            raise
        return None
    if number is None:
        return None
    found = client.get_model_version(name, str(number))
    return ChampionVersion(name, str(number), found.tags.get(HASH_TAG, ""), found.tags.get(RUN_TAG))


def download_champion(
    tracking_uri: str, name: str, destination: Path, registry_uri: str | None = None
) -> ChampionVersion | None:
    """Download the champion's policy folder to `destination`; returns `None` if there is no champion.

    Raises StorageError if what arrives is not what was registered.
    """
    champion = current_champion(tracking_uri, name, registry_uri)
    if champion is None:
        return None
    client = MlflowClient(tracking_uri=tracking_uri, registry_uri=registry_uri or tracking_uri)
    files = client.get_model_version_download_uri(name, champion.version).rstrip("/")
    destination.mkdir(parents=True, exist_ok=True)
    arrived = download_artifacts(
        artifact_uri=f"{files}/artifacts/policy", dst_path=str(destination), tracking_uri=tracking_uri
    )
    folder = Path(arrived)
    _check_arrived(folder, champion)
    return ChampionVersion(name, champion.version, champion.weights_hash, champion.run_id, folder)


def _check_arrived(folder: Path, champion: ChampionVersion) -> None:
    # Imported here: it brings torch and transformers, which asking for the champion does not need.
    from rlft.policy.origin import hash_weights

    found = hash_weights(folder / "model")
    if found != champion.weights_hash:
        raise StorageError(
            f"the weights have sha256 {found[:12]}, registered were {champion.weights_hash[:12]}",
            where=f"models:/{champion.name}/{champion.version}",
            fix="the model's artifacts were changed or are incomplete; register it again, or move the alias back",
        )
