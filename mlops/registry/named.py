"""The registered model or version that a person names, and the champion; their policies, downloaded and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from shlex import quote

from mlflow.entities.model_registry import ModelVersion, RegisteredModel
from mlflow.exceptions import MlflowException

from mlops.registry.client import RegistryClient
from mlops.registry.logged_model import check_version
from mlops.registry.names import ABSENT, CHAMPION, FORMAT_TAG, HASH_TAG, MODEL_TAG, RUN_TAG
from rlft.errors import RlftError, TrackerError
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
    """Return the version of a registered model that has this number.

    Raises RlftError if there is none, or if another rlft made it that this one does not read, and what MLflow raises.
    """
    number = version_number(text)
    where = f"models:/{name}/{number}"
    try:
        found = client.get_model_version(name, number)
        VERSION.check(found.tags.get(FORMAT_TAG), where=where)
        return found
    except MlflowException as cause:
        if cause.error_code not in ABSENT:
            raise
    newest = client.search_model_versions(f"name = '{name}'", max_results=_NAMED, order_by=["version_number DESC"])
    there = ", ".join(str(each.version) for each in newest)
    raise RlftError("there is no such version", where=where, fix=f"name one; the newest are: {there or 'none'}")


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
    aliases = find_model(client, name).aliases
    where = f"models:/{name}@{alias}" if alias else f"models:/{name}/{version}"
    if (number := aliases.get(alias) if alias else version) is None:
        near = get_close_matches(alias or "", aliases, n=1)
        fix = f"did you mean {near[0]}?" if near else "name another, or a version"
        there = ", ".join(sorted(aliases)) or "none"
        raise RlftError(f"no version has this alias; there are: {there}", where=where, fix=fix)
    found = version_of(client, name, str(number))
    if HASH_TAG not in found.tags:
        raise RlftError(
            "this version was not registered by rlft, so what it would sample cannot be known",
            where=where,
            fix="name the folder or hub name of its weights",
        )
    return _named(found)


def _named(found: ModelVersion) -> NamedVersion:
    tags = found.tags
    return NamedVersion(found.name, str(found.version), tags.get(HASH_TAG, ""), tags.get(MODEL_TAG), tags.get(RUN_TAG))


def current_champion(tracking_uri: str, name: str) -> NamedVersion | None:
    """Return the version that `champion` names; `None` before the first promotion.

    Raises TrackerError if the alias names a version that does not exist any more, FormatVersionError for one in a
    format that is not read, what MLflow raises, and ConnectionError for an answer to something else.
    """
    client = RegistryClient(tracking_uri)
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
    return _named(found)


def _check_answer(said: object, asked: object) -> None:
    """Raise ConnectionError unless the registry has answered what it was asked.

    MLflow makes an object without a name of an empty answer, as proxies give: there would be no champion then.
    """
    if said != asked:
        raise ConnectionError(f"it answered for {said!r}, and was asked for {asked!r}")


def download_version(tracking_uri: str, name: str, version: str, destination: Path) -> Path:
    """Download a version's policy folder to `destination`, and return where it lies.

    Raises DamagedError if its files are gone or not what was registered, and what MLflow raises.
    """
    client = RegistryClient(tracking_uri)
    destination.mkdir(parents=True, exist_ok=True)
    return check_version(client, client.get_model_version(name, version), destination)
