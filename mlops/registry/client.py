"""MLflow's client for the registry, which keeps rlft's records about a version or a model off the pages of MLflow.

A version's page lists its tags, but for those whose names begin with `mlflow.`, which MLflow keeps for machines; the
table of all versions lists these, too. So the records that rlft reads again (hashes, what a decision rested on) are one
such tag, `mlflow.rlft.record`, and those that change or are searched for one each (`mlflow.rlft.aliases_set`). A person
sees the score, what the rules said and which run made the version. The notes of a registered model
(`mlops.registry.names.LOGS`) are hidden, too. Versions and models of earlier rlft have theirs under plain names; all
are read as the plain ones.
"""

from __future__ import annotations

import re
from typing import Any

from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion, RegisteredModel, RegisteredModelAlias, RegisteredModelTag
from mlflow.store.entities import PagedList

from mlops.registry.names import HIDDEN, RECORDS, packed_tags, plain_tags, stored_key

_ASKED = re.compile("tags\\.`(" + "|".join(map(re.escape, sorted(RECORDS))) + ")`")


class RegistryClient(MlflowClient):
    """Reads and writes versions and models by the plain names of their records; raises what MLflow raises."""

    def __init__(self, tracking_uri: str, registry_uri: str | None = None) -> None:
        super().__init__(tracking_uri=tracking_uri, registry_uri=registry_uri or tracking_uri)

    def get_registered_model(self, name: str) -> RegisteredModel:
        """Return a registered model."""
        found = super().get_registered_model(name)
        return RegisteredModel(
            found.name,
            found.creation_timestamp,
            found.last_updated_timestamp,
            found.description,
            found.latest_versions,
            [RegisteredModelTag(key, kept) for key, kept in plain_tags(found.tags).items()],
            [RegisteredModelAlias(alias, version) for alias, version in found.aliases.items()],
        )

    def set_registered_model_tag(self, name: str, key: str, value: Any) -> None:
        """Set a tag of a registered model."""
        super().set_registered_model_tag(name, stored_key(key), value)

    def delete_registered_model_tag(self, name: str, key: str) -> None:
        """Delete a tag of a registered model."""
        super().delete_registered_model_tag(name, stored_key(key))

    def get_model_version(self, name: str, version: str) -> ModelVersion:
        """Return a version."""
        return _plain(super().get_model_version(name, version))

    def get_model_version_by_alias(self, name: str, alias: str) -> ModelVersion:
        """Return the version that an alias names."""
        return _plain(super().get_model_version_by_alias(name, alias))

    def search_model_versions(
        self,
        filter_string: str | None = None,
        max_results: int = 1000,
        order_by: list[str] | None = None,
        page_token: str | None = None,
    ) -> PagedList[ModelVersion]:
        """Return a page of the versions that a query finds; by records that are written once none can be found.

        One that asks for records is asked twice, as MLflow knows no `OR`: then the page is all there is, the newest
        version first, and at most `max_results`.
        """
        query = filter_string or ""
        if not _ASKED.search(query):
            page = super().search_model_versions(query, max_results, order_by, page_token)
            return PagedList([_plain(each) for each in page], page.token)
        hidden = _ASKED.sub(lambda found: f"tags.`{HIDDEN}{found[1]}`", query)
        found = {(each.name, each.version): _plain(each) for asked in (query, hidden) for each in self._all(asked)}
        newest = sorted(found.values(), key=lambda each: -int(each.version))
        return PagedList(newest[:max_results], None)

    def _all(self, query: str) -> list[ModelVersion]:
        found, token = list[ModelVersion](), None
        while True:
            page = super().search_model_versions(query, 1000, page_token=token)
            found, token = [*found, *page], page.token
            if not token:
                return found

    def create_model_version(self, name: str, source: str, *args: Any, **kwargs: Any) -> ModelVersion:
        """Make a version; its `tags` are given by their plain names."""
        tags = packed_tags(kwargs.pop("tags", None) or {})
        return _plain(super().create_model_version(name, source, *args, tags=tags, **kwargs))

    def set_model_version_tag(
        self, name: str, version: str | None = None, key: str | None = None, value: Any = None, stage: str | None = None
    ) -> None:
        """Set a tag of a version."""
        super().set_model_version_tag(name, version, stored_key(key or ""), value, stage)


def _plain(version: ModelVersion) -> ModelVersion:
    """Give the records of a version their plain names."""
    plain = plain_tags(version.tags)
    version.tags.clear()
    version.tags.update(plain)
    return version
