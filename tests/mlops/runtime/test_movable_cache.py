"""A cache key holds the place of an artifact store within the home, and of other stores the whole place."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from zenml.orchestrators import cache_utils

from mlops.runtime.movable_cache import leave_home_out


@pytest.fixture
def key(monkeypatch):
    """The key that a step gets for the path of its artifact store; here it is what ZenML would hash of the store."""
    told = lambda step, inputs, store, project: f"{store.id} {store.path} {store.custom_cache_key}"  # noqa: E731
    monkeypatch.setattr(cache_utils, "generate_cache_key", told)
    leave_home_out()
    leave_home_out()  # a second run of the same process

    def of(path: str) -> str:
        store = SimpleNamespace(id="7", path=path, custom_cache_key=b"me")
        return cache_utils.generate_cache_key(step=None, input_artifacts={}, artifact_store=store, project_id=None)

    return of


def test_a_moved_home_keeps_its_keys(key, tmp_path, monkeypatch):
    keys = set()
    for place in ("here", "there"):
        monkeypatch.setenv("RLFT_HOME", str(tmp_path / place))
        keys.add(key(str(tmp_path / place / "zenml" / "local_stores" / "7")))
    assert keys == {"7 zenml/local_stores/7 b'me'"}


@pytest.mark.parametrize("path", ["s3://bucket/runs", "/data/artifacts"])
def test_other_stores_keep_theirs(key, tmp_path, monkeypatch, path):
    monkeypatch.setenv("RLFT_HOME", str(tmp_path))
    assert key(path) == f"7 {path} b'me'"
