"""Adapters that vLLM in this process loads beside its base: the right numbers, each push its own, sabotage."""

import dataclasses
import os

import pytest

from rlft.config import EngineSettings, VllmSettings
from rlft.engines.base import Sampling
from rlft.engines.vllm_engine import VllmEngine
from rlft.errors import EngineError
from tests.left_behind import left_behind
from tests.needs import need_vllm
from tests.rlft.engines.test_vllm_engine import PROMPTS, SEEDS, assert_right, train
from tests.rlft.engines.vllm_policies import make_vllm_policy, move
from tests.rlft.models.small_models import add_lora, make_model, policy_of

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]
SAMPLING = Sampling(1.0, 16)


@pytest.fixture(scope="module")
def engine():
    need_vllm()
    engine = VllmEngine(EngineSettings(engine="vllm", vllm=VllmSettings(cache_gib=0.125, lora="loaded")), 64)
    yield engine
    engine.close()


def test_log_probabilities_are_those_of_the_model_through_updates(engine):
    policy = make_vllm_policy(lora=True)
    base = {name: weight.clone() for name, weight in policy.model.state_dict().items() if "lora_" not in name}
    engine.load_policy(policy)
    llm, requests = engine._llm, []
    for _ in range(4):
        found = engine.generate(PROMPTS, SAMPLING, SEEDS)
        assert_right(policy, found, 1.0)
        requests.append(engine._adapter.request)
        train(policy, found, 1.0)
        engine.load_policy(policy)
    assert engine._llm is llm, "it did not start again"
    assert llm.llm_engine.list_loras() == {engine._adapter.request.lora_int_id}  # the others are gone
    assert len({request.lora_name for request in requests}) == 4
    assert not any(os.path.exists(request.lora_path) for request in requests)
    assert all(base[name].equal(weight) for name, weight in policy.model.state_dict().items() if name in base)


def test_files_that_a_killed_run_left_go_with_the_next_push(engine, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left, policy = left_behind("adapter", tmp_path), make_vllm_policy(lora=True)
    move(policy, 1e-2)
    engine.load_policy(policy)
    assert not left.exists()
    assert os.path.exists(engine._adapter.request.lora_path)


def test_an_adapter_that_did_not_arrive_is_caught(engine, monkeypatch):
    policy = make_vllm_policy(lora=True)
    engine.load_policy(policy)
    before, push = make_vllm_policy(lora=True), engine._adapter.push  # made the same way
    move(policy, 1e-2)
    with monkeypatch.context() as broken:
        broken.setattr(engine._adapter, "push", lambda policy: push(before))
        with pytest.raises(EngineError, match="does not sample with the policy's weights"):
            engine.load_policy(policy)
    engine.load_policy(policy)
    assert_right(policy, engine.generate(PROMPTS, SAMPLING, SEEDS), 1.0)


def test_full_weights_and_another_base_start_it_again(engine):
    for policy in (make_vllm_policy(), make_vllm_policy(lora=True, seed=5)):
        engine.load_policy(policy)
        assert_right(policy, engine.generate(PROMPTS, SAMPLING, SEEDS), 1.0)


def test_an_adapter_of_a_higher_rank_on_the_same_base_starts_it_again(engine):
    # a champion of an earlier run may have one; vLLM holds no higher rank than it was started for
    for rank in (4, 16):
        policy = make_vllm_policy()
        policy = policy_of(add_lora(policy.model, rank=rank))
        policy.metadata = dataclasses.replace(policy.metadata, base_hash="the same")
        engine.load_policy(policy)
        assert_right(policy, engine.generate(PROMPTS, SAMPLING, SEEDS), 1.0)


def test_what_vllm_cannot_load_is_refused_and_can_be_merged(engine):
    options = {"sharpness": 2.0, "vocab_size": 98, "hidden_size": 64, "num_attention_heads": 2, "head_dim": 32}
    policy = policy_of(add_lora(make_model("qwen3", **options, max_position_embeddings=512), use_dora=True))
    with pytest.raises(EngineError, match="vLLM does not take this adapter") as error:
        engine.load_policy(policy)
    assert error.value.where == "rollout.vllm.lora"
    assert "merged" in error.value.fix


def test_a_model_that_vllm_knows_without_adapters_can_be_merged(engine):
    with pytest.raises(EngineError, match="GPT2LMHeadModel does not support LoRA") as error:
        engine.load_policy(make_vllm_policy("gpt2", lora=True))
    assert "set rollout.vllm.lora to merged" in error.value.fix
