"""Finds the registered model or the version that a person names."""

from __future__ import annotations

import re
from shlex import quote

from mlflow.entities.model_registry import ModelVersion, RegisteredModel
from mlflow.exceptions import MlflowException

from mlops.registry.client import RegistryClient
from mlops.registry.names import ABSENT, FORMAT_TAG
from rlft.errors import RlftError
from rlft.formats import VERSION

_SCHEME, _NAMED = "models:/", 10  # a message names at most so many
_NO_VERSION = 2**31  # a number that is as large is no version: databases keep 32 bits


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


def find_version(client: RegistryClient, name: str, text: str) -> ModelVersion:
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
