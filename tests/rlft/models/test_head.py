"""Backbone and head give what the whole model gives, and say so where they cannot."""

import logging

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache, LlamaForCausalLM

from rlft.models.head import Head, selected_logprobs, split_model

VOCABULARY = 40
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 1,
}
GPT2 = {"vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
MAMBA = {key: SHAPE[key] for key in ("vocab_size", "hidden_size", "num_hidden_layers")}
FAMILIES = {
    "qwen3": SHAPE,
    "llama": SHAPE,
    "mistral": SHAPE,
    "gemma": SHAPE,
    "gemma2": SHAPE | {"final_logit_softcapping": 2.0},
    "gemma3_text": SHAPE | {"final_logit_softcapping": 2.0},
    "gpt2": GPT2 | {"bos_token_id": 1, "eos_token_id": 1},
    "phi": SHAPE,
    "gpt_neox": {key: value for key, value in SHAPE.items() if key not in ("head_dim", "num_key_value_heads")},
    "mamba": MAMBA | {"state_size": 4},
}
SOFTCAPS = {"gemma2": 2.0, "gemma3_text": 2.0}
IDS = torch.tensor([[5, 7, 9, 11, 13, 2], [6, 8, 10, 3, 0, 0]])
ATTENTION = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])


def build(family, sharpness=3.0, **changes):
    """A small random model; `sharpness` multiplies its matrices, so that logits are of some size."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **(FAMILIES[family] | changes)))
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and "norm" not in name:
            parameter.data *= sharpness
    return model.eval()


def adapt(model, target_modules="all-linear"):
    """With a LoRA adapter that changes something."""
    adapted = get_peft_model(model, LoraConfig(r=2, lora_alpha=4, target_modules=target_modules, task_type="CAUSAL_LM"))
    generator = torch.Generator().manual_seed(1)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.3
    return adapted.eval()


def by_parts(split, max_chunk_bytes=600):
    """Log-probabilities of every token but the first, through backbone and head, in several chunks."""
    hidden = split.backbone(input_ids=IDS, attention_mask=ATTENTION, use_cache=False)[:, :-1]
    found = selected_logprobs(
        hidden.flatten(0, 1), split.head, IDS[:, 1:].flatten(), 0.7, max_chunk_bytes=max_chunk_bytes
    )
    return found.logprobs.view(2, -1), found.entropy.view(2, -1)


def as_a_whole(model):
    """The same from the model's own logits."""
    logits = model(input_ids=IDS, attention_mask=ATTENTION, use_cache=False).logits[:, :-1]
    everything = (logits / 0.7).log_softmax(-1)
    entropy = -(everything.exp() * everything).sum(-1).detach()
    return everything.gather(-1, IDS[:, 1:, None]).squeeze(-1), entropy


def assert_equal_to_the_whole(model, split):
    """Values and gradients of all trained parameters."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    (one, one_entropy), (other, other_entropy) = by_parts(split), as_a_whole(model)
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(one_entropy, other_entropy, rtol=1e-5, atol=1e-5)
    weights = ATTENTION[:, 1:] * torch.linspace(-1, 1, 5)
    found, wanted = (
        torch.autograd.grad((logprobs * weights).sum(), parameters, allow_unused=True) for logprobs in (one, other)
    )
    assert any(gradient is not None for gradient in wanted)
    for gradient, expected in zip(found, wanted, strict=True):
        if expected is None:
            assert gradient is None
        else:
            scale = expected.abs().max().item()
            torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-5 * max(scale, 1.0))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_comes_apart(family, caplog):
    model = build(family)
    split = split_model(model)
    assert split.body is not None, caplog.text
    assert split.head.linear is model.get_output_embeddings()
    assert (split.head.softcap or 0.0) == pytest.approx(SOFTCAPS.get(family, 0.0), rel=1e-12)
    assert_equal_to_the_whole(model, split)


def test_phi_has_a_bias():
    model = build("phi")
    model.lm_head.bias.data = torch.linspace(-3, 3, VOCABULARY)
    assert_equal_to_the_whole(model, split_model(model))


@pytest.mark.parametrize("tied", [True, False])
def test_tied_weights_get_the_gradients_of_both_ends(tied):
    model = build("llama", tie_word_embeddings=tied)
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied
    assert_equal_to_the_whole(model, split_model(model))


def test_a_cap_that_small_logits_do_not_show_is_found():
    model = build("gemma2", sharpness=0.01, final_logit_softcapping=30.0)
    assert model(IDS).logits.abs().max() < 0.1
    assert split_model(model).head.softcap == pytest.approx(30.0, rel=1e-12)


@pytest.mark.parametrize("family", ["qwen3", "gemma2", "gpt2"])
@pytest.mark.parametrize("target_modules", ["all-linear", "with the head"])
def test_an_adapter_stays_active_and_can_be_switched_off(family, target_modules):
    plain = build(family, **({} if family == "gpt2" else {"tie_word_embeddings": False}))
    before = as_a_whole(plain)[0].detach()
    inner = ["c_attn", "c_proj"] if family == "gpt2" else ["q_proj", "down_proj"]
    model = adapt(plain, target_modules if target_modules == "all-linear" else [*inner, "lm_head"])
    split = split_model(model)
    assert split.body is not None
    assert (split.head.linear is None) == (target_modules != "all-linear")
    assert_equal_to_the_whole(model, split)
    assert not torch.allclose(by_parts(split)[0], before, atol=1e-2)
    with model.disable_adapter():
        torch.testing.assert_close(by_parts(split)[0].detach(), before, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_bfloat16_comes_apart(family):
    split = split_model(build(family).to(torch.bfloat16))
    assert split.body is not None
    assert (split.head.softcap or 0.0) == pytest.approx(SOFTCAPS.get(family, 0.0), rel=1e-12)


def test_last_tokens_extra_arguments_and_a_cache_go_through():
    model = build("llama")
    split = split_model(model)
    seen = []
    attention = model.model.layers[0].self_attn
    attention.register_forward_pre_hook(lambda module, args, kwargs: seen.append(kwargs.get("extra")), with_kwargs=True)
    everything = split.backbone(input_ids=IDS, extra="word")
    assert seen == ["word"]
    assert torch.equal(split.backbone(input_ids=IDS, logits_to_keep=2), everything[:, -2:])
    cache = DynamicCache(config=model.config)
    split.backbone(input_ids=IDS[:, :4], past_key_values=cache, use_cache=True)
    assert cache.get_seq_length() == 4
    rest = split.backbone(input_ids=IDS[:, 4:], past_key_values=cache, use_cache=True)
    torch.testing.assert_close(rest, everything[:, 4:], rtol=1e-5, atol=1e-5)


def test_looking_changes_nothing():
    model = adapt(build("gemma2", attention_dropout=0.5))
    model.train()
    model.base_model.model.model.layers[0].eval()
    modes = {name: module.training for name, module in model.named_modules()}
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    random = torch.get_rng_state()
    assert split_model(model).body is not None
    assert modes == {name: module.training for name, module in model.named_modules()}
    assert torch.equal(random, torch.get_rng_state())
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


class Squared(LlamaForCausalLM):
    """Does to its logits what nobody expects."""

    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        output.logits = output.logits + 0.1 * output.logits.square()
        return output


def test_what_is_not_understood_goes_through_the_model_s_own_logits(caplog):
    model = Squared(AutoConfig.for_model("llama", **SHAPE)).eval()
    with caplog.at_level(logging.WARNING):
        split = split_model(model)
    assert split.body is None
    assert len(caplog.messages) == 1
    assert "Squared" in caplog.messages[0]
    assert "tokens times vocabulary" in caplog.messages[0]
    assert_equal_to_the_whole(model, split)
    kept = split.backbone(input_ids=IDS, logits_to_keep=2)
    assert torch.equal(kept, model(IDS).logits[:, -2:])


def test_a_head_in_float64():
    layer = nn.Linear(3, 5, dtype=torch.float64)
    hidden = torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = 2.0 * torch.tanh(layer(hidden) / 2.0)
    torch.testing.assert_close(Head(layer, 2.0).logits(hidden), expected)
