"""Versions of the registry by name: finds the one that an alias or a number names, and downloads its policy."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from mlflow.exceptions import MlflowException

from mlops.registry.client import RegistryClient
from mlops.registry.finding import model_name, version_number
from mlops.registry.names import ABSENT, FORMAT_TAG, HASH_TAG
from mlops.registry.stored import check_version
from mlops.registry.versions import MODEL_TAG, RUN_TAG
from rlft.errors import RlftError
from rlft.formats import VERSION


@dataclass(frozen=True, slots=True)
class NamedVersion:
    """A version, the hash of its weights, and the logged model and the MLflow run that it comes from, if known."""

    name: str
    version: str
    weights_hash: str
    model_id: str | None
    run_id: str | None


def split_version(text: str) -> tuple[str, str | None, str | None]:
    """Return name, alias and number of `NAME@ALIAS` or `NAME/VERSION`, with `models:/` before it or without.

    One of alias and number is `None`. Raises RlftError for another text.
    """
    short = text.removeprefix("models:/")
    name, at, alias = short.rpartition("@")
    if at and name and alias and "/" not in alias:
        return model_name(name), alias, None
    name, slash, number = short.rpartition("/")
    if slash and name and number and "@" not in short:
        return model_name(name), None, version_number(number)
    raise RlftError(
        f"{text!r:.80} names no version of a registered model",
        where="VERSION",
        fix="write NAME@champion or NAME/3; models:/ before it will do, too",
    )


def find_version(tracking_uri: str, name: str, alias: str | None, version: str | None) -> NamedVersion:
    """Return the version that an alias names, or that has this number.

    Raises RlftError, which says what there is, for one that is not there or is no version of rlft's, and what MLflow
    raises.
    """
    client = RegistryClient(tracking_uri)
    where = f"models:/{name}@{alias}" if alias else f"models:/{name}/{version}"
    try:
        model = client.get_registered_model(name)
    except MlflowException as cause:
        if cause.error_code not in ABSENT:
            raise
        names = ", ".join(each.name for each in client.search_registered_models(max_results=10)) or "none"
        raise RlftError(f"no model of this name is registered; there are: {names}", where=where) from cause
    number = str(model.aliases[alias]) if alias in model.aliases else version
    if number is None:
        known = ", ".join(sorted(model.aliases)) or "none"
        near = get_close_matches(alias or "", list(model.aliases), n=1)
        fix = f"did you mean {near[0]}?" if near else "name another, or a version"
        raise RlftError(f"no version has this alias; there are: {known}", where=where, fix=fix)
    try:
        found = client.get_model_version(name, number)
    except MlflowException as cause:
        if cause.error_code not in ABSENT:
            raise
        newest = client.search_model_versions(f"name = '{name}'", max_results=1, order_by=["version_number DESC"])
        last = newest[0].version if newest else "none"
        raise RlftError(f"there is no such version; the newest is {last}", where=where) from cause
    if HASH_TAG not in found.tags:
        raise RlftError(
            "this version was not registered by rlft, so what it would sample cannot be known",
            where=where,
            fix="name the folder or hub name of its weights",
        )
    VERSION.check(found.tags.get(FORMAT_TAG), where=where)
    return NamedVersion(name, number, found.tags[HASH_TAG], found.tags.get(MODEL_TAG), found.tags.get(RUN_TAG))


def download_version(tracking_uri: str, name: str, version: str, destination: Path) -> Path:
    """Download a version's policy folder to `destination`, and return where it lies.

    Raises DamagedError if its files are gone or not what was registered, and what MLflow raises.
    """
    client = RegistryClient(tracking_uri)
    destination.mkdir(parents=True, exist_ok=True)
    return check_version(client, client.get_model_version(name, version), destination)
