"""MLflow's client for the registry, and the registered model or version that a person names.

The table of all versions lists every tag of each, a line each. So a version has few and short ones: the score, whether
it has passed its gate, and approval. Those that rlft reads again (hashes, what a decision rested on, which run it is
from) are one tag, `mlflow.rlft.record`, as JSON, which the version's own page hides. What is set later is a tag of its
own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion, RegisteredModel
from mlflow.exceptions import MlflowException
from mlflow.store.entities import PagedList

from mlops.registry.logged_model import check_version
from mlops.registry.names import (
    ABSENT,
    CHAMPION,
    FORMAT_TAG,
    HASH_TAG,
    MODEL_TAG,
    RECORD_TAG,
    RECORDS,
    RUN_TAG,
    SCORE_TAG,
)
from mlops.tracking.address import pages
from rlft.errors import DamagedError, FormatVersionError, RlftError
from rlft.types.formats import VERSION

_SCHEME = "models:/"
T = TypeVar("T")


class RegistryClient(MlflowClient):
    """Reads and writes versions by the plain names of their records; raises what MLflow raises."""

    def __init__(self, address: str) -> None:
        super().__init__(tracking_uri=address, registry_uri=address)

    def get_model_version(self, name: str, version: str) -> ModelVersion:
        """Return a version."""
        return self._plain([super().get_model_version(name, version)])[0]

    def search_model_versions(self, *args: Any, **kwargs: Any) -> PagedList[ModelVersion]:
        """Return a page of the versions that a query finds; it can ask for no records."""
        page = super().search_model_versions(*args, **kwargs)
        return PagedList(self._plain(page), page.token)

    def all_versions(self, query: str = "") -> Iterator[ModelVersion]:
        """Yield every version that a query finds, or of all models, page by page; it can ask for no records."""
        yield from pages(partial(self.search_model_versions, query))

    def create_model_version(self, name: str, source: str, *args: Any, **kwargs: Any) -> ModelVersion:
        """Make a version; its `tags` are given by their plain names. Those that are shown begin with the score."""
        tags = kwargs.pop("tags", None) or {}
        shown = {key: tags[key] for key in sorted(tags, key=lambda key: not key.startswith(SCORE_TAG))}
        record = {key: shown.pop(key) for key in tags if key in RECORDS}
        shown[RECORD_TAG] = json.dumps(record, ensure_ascii=False)
        return self._plain([super().create_model_version(name, source, *args, tags=shown, **kwargs)])[0]

    def _plain(self, versions: Iterable[ModelVersion]) -> list[ModelVersion]:
        """Give versions their records under their plain names; what was set later counts."""
        found = list(versions)
        for each in found:
            record = json.loads(each.tags.pop(RECORD_TAG, "{}"))
            each.tags.update(record | each.tags)
        return found


def unless_absent(ask: Callable[[], T]) -> T | None:
    """Return what MLflow answers; `None` if it says that this is not there. Raises what else it raises."""
    try:
        return ask()
    except MlflowException as cause:
        if cause.error_code not in ABSENT:
            raise
    return None


@dataclass(frozen=True, slots=True)
class NamedVersion:
    """A version, the hash of its weights, and the logged model and the MLflow run that it comes from, if known."""

    name: str
    version: str
    weights_hash: str
    model_id: str | None
    run_id: str | None


def find_model(client: RegistryClient, text: str) -> RegisteredModel:
    """Return the registered model that `NAME` or `models:/NAME` means.

    Raises RlftError if there is none, and for text that names a version or an alias, too: which one is meant is for an
    option to say. Raises what MLflow raises.
    """
    name = text.removeprefix(_SCHEME).strip("/")
    if not re.fullmatch("[^/@:]+", name):
        fix = "write NAME or models:/NAME, no more"
        raise RlftError(f"{text!r:.80} is no name of a registered model", where="NAME", fix=fix)
    if (model := unless_absent(lambda: client.get_registered_model(name))) is None:
        there = ", ".join(model.name for model in client.search_registered_models(max_results=10)) or "none"
        raise RlftError(f"no registered model is called {name!r}", where="NAME", fix=f"name one; there are: {there}")
    return model


def version_number(text: str, where: str = "VERSION") -> str:
    """Return the number of a version as MLflow writes it. Raises RlftError if a text is none."""
    if not (found := re.fullmatch("v?0*([1-9][0-9]{0,8})", text, re.ASCII)):
        raise RlftError(f"{text!r:.40} is no number of a version", where=where, fix="write it as 3")
    return found[1]


def version_of(client: RegistryClient, name: str, text: str) -> ModelVersion:
    """Return the version of a registered model that has this number.

    Raises RlftError if there is none, or if another rlft made it that this one does not read, and what MLflow raises.
    """
    number = version_number(text)
    where = f"models:/{name}/{number}"
    if (found := unless_absent(lambda: client.get_model_version(name, number))) is None:
        raise RlftError("there is no such version", where=where, fix=f"`rlft history {quote(name)}`, and name another")
    VERSION.check(found.tags.get(FORMAT_TAG), where=where)
    return found


def split_version(text: str) -> tuple[str, str | None, str | None]:
    """Return name, alias and number of `NAME@ALIAS` or `NAME/VERSION`, with `models:/` before it or without.

    One of alias and number is `None`. Raises RlftError for another text.
    """
    found = re.fullmatch("([^/@:]+)(?:@([^/@]+)|/([^/@]+))", text.removeprefix(_SCHEME))
    if found is None:
        fix = "write NAME@champion or NAME/3; models:/ before it will do, too"
        raise RlftError(f"{text!r:.80} names no version of a registered model", where="VERSION", fix=fix)
    return found[1], found[2], found[3] and version_number(found[3])


def find_version(tracking_uri: str, name: str, alias: str | None, version: str | None) -> NamedVersion:
    """Return the version that an alias names, or that has this number.

    Raises RlftError, which says what there is, for one that is not there or is no version of rlft's, and what MLflow
    raises.
    """
    client = RegistryClient(tracking_uri)
    aliases = find_model(client, name).aliases
    where = f"models:/{name}@{alias}" if alias else f"models:/{name}/{version}"
    if (number := aliases.get(alias) if alias else version) is None:
        fix = f"name a version, or one of these aliases: {', '.join(sorted(aliases)) or 'none'}"
        raise RlftError("no version has this alias", where=where, fix=fix)
    return _named(version_of(client, name, str(number)))


def _named(found: ModelVersion) -> NamedVersion:
    tags = found.tags
    return NamedVersion(found.name, str(found.version), tags.get(HASH_TAG, ""), tags.get(MODEL_TAG), tags.get(RUN_TAG))


def current_champion(tracking_uri: str, name: str) -> NamedVersion | None:
    """Return the version that `champion` names; `None` before the first promotion.

    Raises FormatVersionError for one in a format that is not read, and what MLflow raises.
    """
    client = RegistryClient(tracking_uri)
    model = unless_absent(lambda: client.get_registered_model(name))
    if model is None or (number := model.aliases.get(CHAMPION)) is None:
        return None
    found = client.get_model_version(name, str(number))
    VERSION.check(found.tags.get(FORMAT_TAG), where=f"models:/{name}@{CHAMPION}")
    return _named(found)


def download_version(tracking_uri: str, name: str, version: str, destination: Path) -> Path:
    """Download a version's policy folder to `destination`, and return where it lies.

    Raises DamagedError if its files are gone or not what was registered, and what MLflow raises.
    """
    client = RegistryClient(tracking_uri)
    destination.mkdir(parents=True, exist_ok=True)
    return check_version(client, client.get_model_version(name, version), destination)


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
