"""MLflow's client for the registry, which keeps rlft's records about a version or a model off the pages of MLflow.

The table of all versions lists every tag of each, a line each. So a version has few and short ones: the score, whether
it has passed its gate, approval, and the id of its records. Those that rlft reads again (hashes, what a decision rested
on, which run it is from) are tags of the registered model, whose page hides what begins with `mlflow.`:
`mlflow.rlft.record.ID` holds, as JSON, what is known when the version is made, and `mlflow.rlft.record.ID.KEY` what is
set later. The notes of a registered model (`mlops.registry.names.LOGS`) are hidden, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import uuid4

from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion, RegisteredModel, RegisteredModelAlias, RegisteredModelTag
from mlflow.store.entities import PagedList

from mlops.registry.names import RECORD_TAG, RECORDS, SCORE_TAG, plain_tags, record_key, stored_key


class RegistryClient(MlflowClient):
    """Reads and writes versions and models by the plain names of their records; raises what MLflow raises."""

    def __init__(self, address: str) -> None:
        super().__init__(tracking_uri=address, registry_uri=address)

    def get_registered_model(self, name: str) -> RegisteredModel:
        """Return a registered model; the records of its versions are theirs."""
        found = super().get_registered_model(name)
        tags = {key: kept for key, kept in found.tags.items() if not key.startswith(record_key(""))}
        return RegisteredModel(
            found.name,
            found.creation_timestamp,
            found.last_updated_timestamp,
            found.description,
            found.latest_versions,
            [RegisteredModelTag(key, kept) for key, kept in plain_tags(tags).items()],
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
        return self._plain([super().get_model_version(name, version)])[0]

    def get_model_version_by_alias(self, name: str, alias: str) -> ModelVersion:
        """Return the version that an alias names."""
        return self._plain([super().get_model_version_by_alias(name, alias)])[0]

    def search_model_versions(
        self,
        filter_string: str | None = None,
        max_results: int = 1000,
        order_by: list[str] | None = None,
        page_token: str | None = None,
    ) -> PagedList[ModelVersion]:
        """Return a page of the versions that a query finds; it can ask for no records."""
        page = super().search_model_versions(filter_string or "", max_results, order_by, page_token)
        return PagedList(self._plain(page), page.token)

    def all_versions(self, query: str = "") -> Iterator[ModelVersion]:
        """Yield every version that a query finds, or of all models, page by page; it can ask for no records."""
        token = None
        while True:
            page = self.search_model_versions(query, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def create_model_version(self, name: str, source: str, *args: Any, **kwargs: Any) -> ModelVersion:
        """Make a version; its `tags` are given by their plain names. Those that are shown begin with the score."""
        tags, own = kwargs.pop("tags", None) or {}, uuid4().hex[:8]
        record = {key: kept for key, kept in tags.items() if key in RECORDS}
        # First, so that no version is ever without them.
        super().set_registered_model_tag(name, record_key(own), json.dumps(record, ensure_ascii=False))
        shown = {
            key: tags[key] for key in sorted(tags, key=lambda key: not key.startswith(SCORE_TAG)) if key not in record
        }
        shown[stored_key(RECORD_TAG)] = own
        return self._plain([super().create_model_version(name, source, *args, tags=shown, **kwargs)])[0]

    def set_model_version_tag(
        self, name: str, version: str | None = None, key: str | None = None, value: Any = None, stage: str | None = None
    ) -> None:
        """Set a tag of a version."""
        own = super().get_model_version(name, str(version)).tags.get(stored_key(RECORD_TAG)) if key in RECORDS else None
        if own is None:
            super().set_model_version_tag(name, version, stored_key(key or ""), value, stage)
        else:
            super().set_registered_model_tag(name, f"{record_key(own)}.{key}", value)

    def _plain(self, versions: Iterable[ModelVersion]) -> list[ModelVersion]:
        """Give the records of versions their plain names."""
        found = list(versions)
        of_models = {
            name: super(RegistryClient, self).get_registered_model(name).tags for name in {each.name for each in found}
        }
        for each in found:
            plain = plain_tags(each.tags, of_models[each.name])
            each.tags.clear()
            each.tags.update(plain)
        return found
