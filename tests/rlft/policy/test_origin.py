"""Where a base model comes from."""

from __future__ import annotations

from huggingface_hub import constants

from rlft.config import PolicyConfig
from rlft.policy.origin import hash_weights, origin_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_a_model_of_the_hub_is_known_by_the_commit_that_was_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--small--letters" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(b"weights")
    refs = snapshot.parents[1] / "refs"
    refs.mkdir()
    for branch in ("main", "v1"):
        (refs / branch).write_text(COMMIT)
    expected = ("small/letters", COMMIT, hash_weights(snapshot))
    for revision in (None, "v1", COMMIT):
        assert origin_of(PolicyConfig(model="small/letters", revision=revision)) == expected


def test_a_folder_has_no_commit(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    assert origin_of(PolicyConfig(model=str(tmp_path))) == (str(tmp_path), None, hash_weights(tmp_path))
