"""Checksums of a server's tensors beside the trainer's: what must be equal, what is in another form, and shards."""

import pytest

from rlft.engines.checksums import PolicyChecksums, ServerChecksums, of_all_workers
from rlft.errors import EngineError
from tests.rlft.attention.models import make_small_policy
from tests.rlft.engines.servers import checksums_of
from tests.rlft.engines.vllm_policies import move

NORM = "model.layers.1.input_layernorm.weight"


def told(policy, **others):
    return of_all_workers([checksums_of(policy.model)]) | others


@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_all_that_arrived_is_equal_and_one_that_stayed_is_named(family):
    policy, server = make_small_policy(family), ServerChecksums()
    for update in range(3):
        server.check(told(policy), PolicyChecksums(policy), "it")
        assert server.compared == 1
        old = told(policy)
        move(policy, 1e-3, update)
    for name in (NORM, "model.layers.0.self_attn.qkv_proj.weight", "model.embed_tokens.weight"):
        with pytest.raises(EngineError, match=f" it does not have the policy's weights after a push: {name}\n"):
            server.check(told(policy) | {name: old[name]}, PolicyChecksums(policy), "it")
    server.check(told(policy), PolicyChecksums(policy), "it")


def test_what_was_never_equal_is_left_to_the_canaries():
    policy, server = make_small_policy("qwen3"), ServerChecksums()
    packed, size = "model.layers.0.mlp.down_proj.weight", 0
    for update in range(2):
        ours = PolicyChecksums(policy)
        size = ours.sizes[packed] / sum(ours.sizes.values())
        server.check(told(policy) | {packed: "of nothing"}, ours, "it")
        assert server.compared == pytest.approx(1 - size)
        move(policy, 1e-3, update)
    assert size > 0.01
    nothing = ServerChecksums()
    nothing.check({}, PolicyChecksums(policy), "it")
    assert nothing.compared == 0


def test_shards_are_left_out():
    answers = [{"dp0:pp0:pcp0:tp0:a": "1", "dp0:pp0:pcp0:tp0:b": "2"}, {"dp0:pp0:pcp0:tp1:a": "1", "dp0:tp1:b": "3"}]
    assert of_all_workers(answers) == {"a": "1"}
    assert of_all_workers([]) == {}
