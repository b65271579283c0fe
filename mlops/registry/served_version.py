"""The version that is served: which one it is, its files in the layout that engines load, and its context."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlflow.artifacts import download_artifacts
from mlflow.models import Model

from mlops.registry.client import NamedVersion, RegistryClient, download_version, find_version
from mlops.registry.logged_model import policy_signature, save_model
from mlops.tracking.address import PATIENT_HTTP, answering
from rlft.temporary import folder_prefix, remove_left_behind

logger = logging.getLogger(__name__)
KIND = "serve"  # of the temporary folders


@dataclass(frozen=True, slots=True)
class ServedVersion:
    """A version with its files at hand.

    `alias` is the one by which it was named, if any. `folder` is an export of it (`rlft.export`), or a model of
    MLflow's with the program of this rlft: what lies in the version may be anybody's. `context` is its `context.json`,
    empty where there is none. `dtype` is the data type of the policy.
    """

    name: str
    number: str
    alias: str | None
    weights_hash: str
    model_id: str | None
    folder: Path
    context: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "float32"

    @property
    def names(self) -> frozenset[str]:
        """The names by which a request may ask for it."""
        short = {self.name, f"{self.name}/{self.number}"} | ({f"{self.name}@{self.alias}"} if self.alias else set())
        return frozenset({*short, *(f"models:/{name}" for name in short)})


def find(tracking_uri: str, name: str, alias: str | None, number: str | None) -> NamedVersion:
    """Return the version that an alias names now, or that has this number; asked with short waits.

    Raises RlftError if it is not there, and TrackerError if the registry does not answer.
    """
    with answering(tracking_uri, PATIENT_HTTP):
        return find_version(tracking_uri, name, alias, number)


def prepare(tracking_uri: str, found: NamedVersion, alias: str | None, *, export: bool, merge: bool) -> ServedVersion:
    """Download a version, check its files, and write them as what vLLM loads (`export`), or MLflow's server.

    The files are in a temporary folder, which `discard` removes, or after a kill the next call. Raises DamagedError,
    PolicyError and StorageError as an export does, and TrackerError if the registry does not answer.
    """
    remove_left_behind(KIND)
    place = Path(tempfile.mkdtemp(prefix=folder_prefix(KIND)))
    with answering(tracking_uri, PATIENT_HTTP):
        source = download_version(tracking_uri, found.name, found.version, place / "version")
        place_of = RegistryClient(tracking_uri).get_model_version_download_uri
        own = None if export else f"{place_of(found.name, found.version).rstrip('/')}/MLmodel"
        info = own and Model.load(download_artifacts(own, dst_path=str(place), tracking_uri=tracking_uri))
    shown = source / "context.json"
    context = json.loads(shown.read_text(encoding="utf-8")) if shown.is_file() else {}
    folder, policy = place / "served", json.loads((source / "policy.json").read_text(encoding="utf-8"))
    if not info:
        from rlft.export.folder import write_export
        from rlft.policy import PolicyFolder

        folder.mkdir()
        write_export(PolicyFolder(source), folder, merge=merge)
    else:
        assert info.signature is not None
        longest = next(each.default for each in info.signature.params or () if each.name == "max_new_tokens")
        save_model(folder, source, policy, policy_signature(int(longest)))
    if note := context.get("note"):
        logger.warning("version %s of %s: %s", found.version, found.name, note)
    context = context if export else {}  # MLflow's server applies it itself
    known = (found.name, found.version, alias, found.weights_hash, found.model_id)
    return ServedVersion(*known, folder, context, str(policy["dtype"]))
