"""The files of registered versions: whether they are still those that were registered."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts, list_artifacts
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException

from mlops.registry.client import RegistryClient
from mlops.registry.logged_model import SERVED, hash_files
from mlops.registry.names import FILES_TAG, FORMAT_TAG, HASH_TAG, REGISTRATION, RUN_NAME_TAG
from rlft.errors import DamagedError, FormatVersionError
from rlft.formats import VERSION


def check_files(folder: Path, tags: Mapping[str, str], where: str) -> None:
    """Raise DamagedError if a policy folder does not hold what was registered with these tags, or FormatVersionError.

    `where` names it to the user. Of a version without the hash of all files the weights are compared.
    """
    VERSION.check(tags.get(FORMAT_TAG), where=where)
    run = tags.get(RUN_NAME_TAG, "")
    check_weights(folder, tags.get(HASH_TAG, ""), where, run)
    if not (expected := tags.get(FILES_TAG)):
        return
    if (found := hash_files(folder)) != expected:
        what = f"the files have sha256 {found[:12]}, registered were {expected[:12]}"
        raise DamagedError(what, where=where, run=run, step=REGISTRATION)
    if added := sorted(file.name for file in folder.iterdir() if file.name not in SERVED):
        raise DamagedError(f"{added[0]} was not registered with the others", where=where, run=run, step=REGISTRATION)


def check_weights(folder: Path, expected: str, where: str, run_name: str = "") -> None:
    """Raise DamagedError if a policy folder does not hold the weights of this hash; `where` names it to the user."""
    # Imported here: it brings torch and transformers, which asking for the champion does not need.
    from rlft.policy.origin import hash_weights

    found = hash_weights(folder / "model")
    if found != expected:
        what = f"the weights have sha256 {found[:12]}, registered were {expected[:12]}"
        raise DamagedError(what, where=where, run=run_name, step=REGISTRATION)


def check_version(client: MlflowClient, version: ModelVersion, destination: Path | None = None) -> Path:
    """Return the policy folder of a version. Files far away are downloaded to `destination`; without it those on this
    machine are read where they lie.

    Raises DamagedError if the files are gone or not those that were registered, and what MLflow raises if the place
    where they lie does not answer.
    """
    where = f"models:/{version.name}/{version.version}"
    files = client.get_model_version_download_uri(version.name, version.version).rstrip("/") + "/artifacts/policy"
    try:
        folder = download_artifacts(
            artifact_uri=files,
            dst_path=str(destination) if destination else None,
            tracking_uri=client.tracking_uri,
        )
    except (MlflowException, OSError) as cause:
        list_artifacts(artifact_uri=files, tracking_uri=client.tracking_uri)  # fails if the place does not answer
        what = f"the files of this version cannot be read: {cause}"
        raise DamagedError(what, where=where, run=version.tags.get(RUN_NAME_TAG, ""), step=REGISTRATION) from cause
    check_files(Path(folder), version.tags, where)
    return Path(folder)


def is_whole(client: MlflowClient, version: ModelVersion) -> bool:
    """Return whether the files of a version are those that were registered."""
    with tempfile.TemporaryDirectory() as temporary:
        try:
            check_version(client, version, Path(temporary))
        except DamagedError:
            return False
    return True


def damaged_versions(tracking_uri: str) -> Iterator[DamagedError | FormatVersionError]:
    """Yield an error for each version of rlft's in a registry on this machine whose files have changed.

    That of a version in a format that is not read is an FormatVersionError.
    """
    client = RegistryClient(tracking_uri)
    for version in client.all_versions():
        if HASH_TAG in version.tags:
            try:
                check_version(client, version)
            except (DamagedError, FormatVersionError) as damage:
                yield damage
