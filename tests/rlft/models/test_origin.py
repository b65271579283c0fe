"""Where a base model comes from."""

from __future__ import annotations

import pytest
from huggingface_hub import constants

from rlft.config import LoraSettings, PolicyConfig
from rlft.errors import PolicyError
from rlft.models import save_policy
from rlft.models.origin import create_policy, hash_weights, origin_of
from tests.factories import make_lora_policy, save_base

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


def test_an_adapter_is_refused_with_the_name_of_its_base(tmp_path):
    base = save_base(tmp_path / "base")
    policy = make_lora_policy(base)
    adapter = save_policy(policy, tmp_path / "policy").path / "model"
    policy.tokenizer.save_pretrained(adapter)
    with pytest.raises(PolicyError) as caught:
        create_policy(PolicyConfig(model=str(adapter), device="cpu", lora=LoraSettings(rank=2)), seed=0)
    assert caught.value.where == "policy.model"
    assert str(base) in caught.value.fix


@pytest.mark.parametrize("names", ["q_proj", ["q_proj"], ".*q_proj"])
def test_one_layer_may_be_named_alone(tmp_path, names):
    settings = PolicyConfig(
        model=str(save_base(tmp_path / "base")), device="cpu", lora=LoraSettings(rank=2, target_modules=names)
    )
    trainable = create_policy(settings, seed=0).trainable()
    assert trainable
    assert all("q_proj" in name for name in trainable)


@pytest.mark.parametrize("names", [["c_attn"], ["q_proj", "c_attn"]])
def test_layers_that_are_not_there_are_answered_by_those_that_are(tmp_path, names):
    settings = PolicyConfig(
        model=str(save_base(tmp_path / "base")), device="cpu", lora=LoraSettings(target_modules=names)
    )
    with pytest.raises(PolicyError) as caught:
        create_policy(settings, seed=0)
    assert {"q_proj", "down_proj"} <= set(caught.value.fix.replace(",", "").split())
