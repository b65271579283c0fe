"""Weights that are read back from an engine, an `nn.Module` that joins, pads, turns and packs them as vLLM does."""

from typing import Any

import pytest
import torch
from torch import nn

from rlft.engines.readback import PolicyChecksums, Readback, ServerChecksums, of_all_workers
from rlft.errors import EngineError
from rlft.models.weights import checkpoint_weights
from tests.factories import ARCHITECTURES
from tests.rlft.engines.servers import checksums_of
from tests.rlft.engines.vllm_policies import move
from tests.rlft.models.small_models import make_small_policy

PACKED = {"qkv_proj": ["q_proj", "k_proj", "v_proj"], "gate_up_proj": ["gate_proj", "up_proj"]}
TURNED = ("c_attn", "c_proj", "c_fc")


class JoinedEngine(nn.Module):
    """The tensors that vLLM makes of a checkpoint; those of `packed` are only there as what they compute."""

    def __init__(self, packed=()):
        super().__init__()
        self.packed_modules_mapping, self.packed = PACKED, packed

    @torch.no_grad()
    def load(self, weights):
        joined = {part: (name, parts) for name, parts in PACKED.items() for part in parts}
        found = {}
        for name, weight in weights:
            path, leaf = name.rsplit(".", 1)
            parent, _, last = path.rpartition(".")
            whole, parts = joined.get(last, (last, [last]))
            if last in TURNED and leaf == "weight":
                weight = weight.T
            found.setdefault((f"{parent}.{whole}".strip("."), leaf), {})[parts.index(last)] = weight.clone()
        for (place, leaf), parts in found.items():
            self.put(place, leaf, torch.cat([parts[key] for key in sorted(parts)]))

    def put(self, place, leaf, tensor):
        module: Any = self
        for name in place.split("."):
            if name not in module._modules:
                module.add_module(name, nn.Module())
            module = module._modules[name]
        if leaf == "weight" and place.endswith(("embed_tokens", "wte", "lm_head")):
            tensor = torch.cat([tensor, torch.zeros(3, tensor.shape[1], dtype=tensor.dtype)])
        if leaf == "weight" and place.endswith(self.packed):
            module.cpu_linear = lambda x, weight, bias, kept=tensor: x @ kept.T
            tensor = tensor if place == "lm_head" else torch.empty(0, dtype=tensor.dtype)
        setattr(module, leaf, nn.Parameter(tensor, requires_grad=False))


def started(policy, packed=(), kind=JoinedEngine):
    """An engine whose first push has arrived."""
    engine, readback = kind(packed), Readback()
    engine.load([(name, torch.full_like(weight, 1e-3)) for name, weight in checkpoint_weights(policy.model)])
    readback.begin(engine, policy)
    engine.load(checkpoint_weights(policy.model))
    readback.check(engine, policy)
    return engine, readback


DTYPES = [torch.float32, torch.bfloat16]
ON_A_CPU = ("_proj", *TURNED, "lm_head")


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("packed", [(), ON_A_CPU], ids=["plain", "packed"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", ARCHITECTURES)
def test_all_weights_that_arrived_are_found_equal(family, dtype, packed, lora):
    policy = make_small_policy(family, dtype=dtype, lora=lora)
    engine, readback = started(policy, packed)
    for update in range(3):
        assert readback.compared == 1.0
        move(policy, 1e-3, update)
        engine.load(checkpoint_weights(policy.model))
        readback.check(engine, policy)


def only(*parts):
    """Sabotage: the tensors whose name holds one of these keep the values of the last push."""
    return lambda name, new, old: old if any(part in name for part in parts) else new


def rolled(name, new, old):
    return new.roll(1, 0) if ".1." in name and new.dim() == 2 else new


SABOTAGE = {
    "the MLP never arrives": only("mlp"),
    "attention never arrives": only("attn"),
    "one norm is stale": only("layers.1.input_layernorm", "h.1.ln_1"),
    "the embedding is stale": only("embed_tokens", "wte"),
    "the head is stale": only("lm_head"),
    "one layer is stale": only("layers.1.", "h.1."),
    "half of the update": lambda name, new, old: (new + old) / 2,
    "rows in another order": rolled,
    "the last push again": lambda name, new, old: old,
}


@pytest.mark.parametrize("packed", [(), ON_A_CPU], ids=["plain", "packed"])
@pytest.mark.parametrize("sabotage", SABOTAGE)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", ARCHITECTURES)
def test_a_tensor_that_did_not_arrive_is_named_at_once(family, dtype, sabotage, packed):
    policy = make_small_policy(family, dtype=dtype)
    if sabotage == "the head is stale" and policy.model.config.tie_word_embeddings:
        packed = ON_A_CPU  # it has a copy of its own there alone
    engine, readback = started(policy, packed)
    old = {name: weight.clone() for name, weight in checkpoint_weights(policy.model)}
    move(policy, 1e-2)  # one of 1e-3 is none to a norm of 1 in bfloat16
    rows = [(name, SABOTAGE[sabotage](name, weight, old[name])) for name, weight in checkpoint_weights(policy.model)]
    engine.load(rows)
    with pytest.raises(EngineError, match="vLLM does not have the policy's weights after a push: ") as error:
        readback.check(engine, policy)
    names = str(error.value)
    if sabotage == "one norm is stale":
        assert "layers.1.input_layernorm.weight" in names or "h.1.ln_1" in names
        assert "more" not in names.split("\n")[0]
    engine.load(checkpoint_weights(policy.model))
    readback.check(engine, policy)


def test_weights_that_never_arrive_from_the_start_are_named():
    policy, engine, readback = make_small_policy("qwen3"), JoinedEngine(), Readback()
    empty = {name: torch.full_like(weight, 1e-3) for name, weight in checkpoint_weights(policy.model)}
    engine.load(empty.items())
    readback.begin(engine, policy)
    engine.load((n, empty[n] if "v_proj" in n else weight) for n, weight in checkpoint_weights(policy.model))
    with pytest.raises(EngineError, match=r"push: model\.layers\.0\.self_attn\.qkv_proj\.weight \[v_proj\], model"):
        readback.check(engine, policy)


class Other(JoinedEngine):
    """Keeps its norms as a reciprocal, and has no place for the head."""

    def put(self, place, leaf, tensor):
        if place != "lm_head":
            super().put(place, leaf, 1 / tensor if place == "model.norm" else tensor)


def test_what_is_kept_in_another_form_must_change_when_the_policy_does():
    policy = make_small_policy("qwen3")
    engine, readback = started(policy, kind=Other)
    weights = dict(checkpoint_weights(policy.model))
    left = weights["model.norm.weight"].numel() + weights["lm_head.weight"].numel()
    assert readback.compared == pytest.approx(1 - left / sum(weight.numel() for weight in weights.values()))
    readback.check(engine, policy)  # nothing was to change
    move(policy, 1e-3)
    engine.load(checkpoint_weights(policy.model))
    readback.check(engine, policy)
    kept = engine.get_parameter("model.norm.weight").clone()
    move(policy, 1e-3, 1)
    engine.load(checkpoint_weights(policy.model))
    with torch.no_grad():
        engine.get_parameter("model.norm.weight").copy_(kept)
    with pytest.raises(EngineError, match=r"push: model\.norm\.weight\n"):
        readback.check(engine, policy)


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
