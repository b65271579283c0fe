"""The registered model or version that a person names, and its policy, downloaded and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from shlex import quote

from mlflow.entities.model_registry import ModelVersion, RegisteredModel
from mlflow.exceptions import MlflowException

from mlops.registry.client import RegistryClient
from mlops.registry.names import ABSENT, FORMAT_TAG, HASH_TAG, MODEL_TAG, RUN_TAG
from mlops.registry.stored import check_version
from rlft.errors import RlftError
from rlft.formats import VERSION

_SCHEME, _NAMED = "models:/", 10  # a message names at most so many
_NO_VERSION = 2**31  # a number that is as large is no version: databases keep 32 bits


@dataclass(frozen=True, slots=True)
class NamedVersion:
    """A version, the hash of its weights, and the logged model and the MLflow run that it comes from, if known."""

    name: str
    version: str
    weights_hash: str
    model_id: str | None
    run_id: str | None


def model_name(text: str) -> str:
    """Return the name of the registered model that `NAME` or `models:/NAME` means.

    Raises RlftError for text that names a version or an alias, too: which one is meant is for an option to say.
    """
    name = text.removeprefix(_SCHEME).strip("/")
    if not name or any(mark in name for mark in "/@:"):
        alone = re.split("[/@:]", name)[0]
        fix = f"give the name alone: {quote(alone)}" if alone else "write NAME or models:/NAME, no more"
        raise RlftError(f"{text!r:.80} is no name of a registered model", where="NAME", fix=fix)
    return name


def find_model(client: RegistryClient, text: str) -> RegisteredModel:
    """Return the registered model that a text names. Raises RlftError if there is none, and what MLflow raises."""
    name = model_name(text)
    try:
        return client.get_registered_model(name)
    except MlflowException as cause:
        if cause.error_code not in ABSENT:
            raise
    there = [model.name for model in client.search_registered_models(max_results=_NAMED)]
    raise RlftError(
        f"no registered model is called {name!r}",
        where="NAME",
        fix=f"name one; there are: {', '.join(there) or 'none'}",
    )


def version_number(text: str, where: str = "VERSION") -> str:
    """Return the number of a version as MLflow writes it. Raises RlftError if a text is none."""
    number = text.removeprefix("v")
    if not (number.isascii() and number.isdecimal() and len(number) < 11 and 0 < int(number) < _NO_VERSION):
        raise RlftError(f"{text!r:.40} is no number of a version", where=where, fix="write it as 3")
    return str(int(number))


def version_of(client: RegistryClient, name: str, text: str) -> ModelVersion:
    """Return a version of a registered model.

    Raises RlftError if there is none, or if another rlft made it that this one does not read, and what MLflow raises.
    """
    number = version_number(text)
    try:
        found = client.get_model_version(name, number)
        VERSION.check(found.tags.get(FORMAT_TAG), where=f"models:/{name}/{number}")
        return found
    except MlflowException as cause:
        if cause.error_code not in ABSENT:
            raise
    found = client.search_model_versions(f"name = '{name}'", max_results=_NAMED, order_by=["version_number DESC"])
    there = ", ".join(str(each.version) for each in found)
    raise RlftError(
        f"{name} has no version {number}", where="VERSION", fix=f"name one; the newest are: {there or 'none'}"
    )


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
