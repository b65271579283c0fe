"""Artifact stores without a ZenML server, whose metadata of artifacts a mapping stands for."""

from __future__ import annotations

from datetime import datetime
from uuid import uuid4

import pytest
from zenml.artifact_stores import LocalArtifactStore, LocalArtifactStoreConfig
from zenml.enums import StackComponentType

from materializers.sealed import SealedMaterializer


class RemoteConfig(LocalArtifactStoreConfig):
    """A folder that says it is far away."""

    @property
    def is_local(self) -> bool:
        """Never."""
        return False


def _store(path, config):
    path.mkdir()
    now = datetime(2026, 1, 1)
    return LocalArtifactStore(
        name="test",
        id=uuid4(),
        config=config(path=str(path)),
        flavor="local",
        type=StackComponentType.ARTIFACT_STORE,
        user=uuid4(),
        created=now,
        updated=now,
    )


@pytest.fixture(autouse=True)
def noted(monkeypatch):
    """What ZenML has noted of artifacts, by their addresses: the seal alone."""
    found, keep = {}, SealedMaterializer.keep_seal

    def kept(self, contents):
        keep(self, contents)
        found[self.uri] = self.noted_seal()

    monkeypatch.setattr(SealedMaterializer, "keep_seal", kept)
    monkeypatch.setattr("materializers.sealed.noted_of", lambda uri: found.get(uri, {}))
    return found


@pytest.fixture
def local_store(tmp_path):
    """A store on this machine."""
    return _store(tmp_path / "store", LocalArtifactStoreConfig)


@pytest.fixture
def remote_store(tmp_path):
    """A store that must be copied to and from."""
    return _store(tmp_path / "remote", RemoteConfig)
