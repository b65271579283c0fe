"""Which models share a prompt, which do not, and that asking leaves no trace."""

import logging

import pytest
import torch
from peft import PrefixTuningConfig, get_peft_model

from rlft.models.attention.interface import shares_prompts
from tests.rlft.models.small_models import FAMILIES, OTHERS, add_lora, make_model

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("family", FAMILIES)
def test_families_that_share(family, caplog):
    caplog.set_level(logging.INFO)
    for dtype in DTYPES:  # a model must not be refused for the rounding of its type
        for sharpness in (1.0, 10.0):
            assert shares_prompts(make_model(family, dtype=dtype, sharpness=sharpness)), (dtype, sharpness)
    assert shares_prompts(add_lora(make_model(family)))
    assert caplog.records == []


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_deep_models_of_short_types_share(family):
    depth = {"n_layer": 16} if family == "gpt2" else {"num_hidden_layers": 16}
    assert shares_prompts(make_model(family, dtype=torch.bfloat16, **depth))


@pytest.mark.parametrize("family", ["qwen3_moe", "mixtral"])
def test_experts_share(family):
    # a token's expert computes with other tokens beside it, which rounds otherwise: that is no leak
    experts = {"num_local_experts": 4} if family == "mixtral" else {"num_experts": 4, "moe_intermediate_size": 16}
    for dtype in (torch.float32, torch.bfloat16):
        assert shares_prompts(make_model(family, dtype=dtype, num_experts_per_tok=2, **experts))


def refuse(model, caplog):
    """The one line that the log has of a model that goes the plain way."""
    caplog.set_level(logging.INFO)
    caplog.clear()
    assert not shares_prompts(model)
    lines = [record.getMessage() for record in caplog.records if record.name == "rlft.models.attention.interface"]
    assert len(lines) == 1
    assert "\n" not in lines[0]
    return lines[0]


REASONS = {
    "mistral": "reaches 4 tokens back",
    "gemma2": "sliding_attention",
    "gemma3_text": "sliding_attention",
    "mamba": "linear_attention",
    "bloom": "not every layer",
}


@pytest.mark.parametrize("family", OTHERS)
def test_families_that_go_the_plain_way(family, caplog):
    assert REASONS[family] in refuse(make_model(family), caplog)


def test_a_window_that_a_few_tokens_do_not_show(caplog):
    # Mistral hands its window to the attention; Phi's experts put it into a mask, which ours never sees
    assert "reaches 4096 tokens back" in refuse(make_model("mistral", sliding_window=4096), caplog)
    assert shares_prompts(make_model("mistral", sliding_window=None))
    assert "reaches 48 tokens back" in refuse(make_model("phimoe", sliding_window=48, num_local_experts=4), caplog)


def test_two_attentions_in_one_layer(caplog):
    # the keys of one would be kept in the place of the other's
    assert "not every layer" in refuse(make_model("diffllama"), caplog)


def test_attention_with_sinks_and_with_a_softcap(caplog):
    full = {"layer_types": ["full_attention"] * 2}
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 128}
    assert "s_aux" in refuse(make_model("gpt_oss", **full, **experts), caplog)
    assert "softcap" in refuse(make_model("gemma2", **full, sliding_window=None), caplog)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_positions_that_are_not_looked_at(dtype, caplog):
    # in an untrained model they hardly matter: in bfloat16 the outputs differ by less than rounding
    model = make_model("llama", dtype=dtype, sharpness=1.0)
    rotary = model.model.rotary_emb
    forward = rotary.forward
    rotary.forward = lambda x, position_ids: forward(x, torch.arange(x.shape[1])[None])
    assert "positions" in refuse(model, caplog)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("backwards", [False, True])
def test_tokens_that_reach_their_neighbours_beside_the_attention(dtype, backwards, caplog):
    # a convolution, say, whose share in the outputs is less than the rounding of bfloat16
    model = make_model("llama", dtype=dtype, sharpness=1.0)
    mlp = model.model.layers[0].mlp
    forward = mlp.forward
    mlp.forward = lambda x: forward(x) + 1e-3 * x.roll(-1 if backwards else 1, 1)
    assert "changes the outputs of others" in refuse(model, caplog)


def test_another_scale_than_the_one_that_is_handed_over(caplog):
    model = make_model("llama")
    model.model.layers[0].self_attn.o_proj.register_forward_pre_hook(
        lambda _, inputs: (inputs[0] * (1.5 if model.config._attn_implementation == "sdpa" else 1.0),)
    )
    assert "differ from those of single ones" in refuse(model, caplog)


def test_a_prefix_before_every_prompt(caplog):
    config = PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    model = get_peft_model(make_model("llama", num_key_value_heads=4), config).eval()
    assert not shares_prompts(model)
    assert refuse(model, caplog)


def test_a_compiled_model(caplog):
    model = make_model("llama")
    assert "compiled" in refuse(torch.compile(model, backend="eager"), caplog)
    assert shares_prompts(model)
    model.model.compile(backend="eager")
    assert "compiled" in refuse(model, caplog)


@pytest.mark.parametrize("family", ["qwen3", *OTHERS])
@pytest.mark.parametrize("lora", [False, True])
def test_asking_leaves_no_trace(family, lora):
    model = make_model(family)
    model = add_lora(model) if lora and family != "mamba" else model
    for number, module in enumerate(model.modules()):
        module.training = number % 3 == 0  # some in training mode, some not
    modes = [module.training for module in model.modules()]
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    random, implementation = torch.random.get_rng_state(), model.config._attn_implementation
    shares_prompts(model)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(weights[name], p) for name, p in model.named_parameters())
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.random.get_rng_state(), random)
    assert model.config._attn_implementation == implementation
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert torch.is_grad_enabled()
