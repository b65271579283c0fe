"""A live policy's weights by checkpoint name, an adapter's merged, and the model as it was afterwards."""

import warnings

import pytest
import torch
from peft import LoraConfig, get_peft_model

from rlft.models.export import checkpoint_weights
from tests.rlft.models.small_models import add_lora, make_model

LORA_FAMILIES = ("qwen3", "llama", "gpt2")
ROW = torch.tensor([[4, 9, 3, 12, 7, 7, 1, 15]])


def bytes_of(model):
    """Every tensor's bytes, the adapter's too."""
    return {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()}


def logits_of(model):
    with torch.no_grad():
        return model(input_ids=ROW, use_cache=False).logits


def copies(model):
    """All weights by name; no name may come twice."""
    found = [(name, weight.clone()) for name, weight in checkpoint_weights(model)]
    assert len(dict(found)) == len(found)
    return dict(found)


def merged_layers(model):
    return [name for name, module in model.named_modules() if getattr(module, "merged", False)]


@pytest.mark.parametrize(
    ("family", "tied"), [("qwen3", True), ("qwen3", False), ("llama", True), ("llama", False), ("gpt2", True)]
)
def test_a_full_model_gives_its_state_under_every_name(family, tied):
    model = make_model(family, tie_word_embeddings=tied)
    state, found = model.state_dict(), copies(model)
    assert found.keys() == state.keys()
    assert all(torch.equal(found[name], state[name]) for name in state)
    inner = model.get_input_embeddings().weight
    assert torch.equal(found["lm_head.weight"], inner) == tied


def test_the_tensors_of_a_full_model_are_its_own():
    model = make_model("qwen3")
    parameters = dict(model.named_parameters())
    assert all(weight.data_ptr() == parameters[name].data_ptr() for name, weight in checkpoint_weights(model))


@pytest.mark.parametrize("family", LORA_FAMILIES)
def test_an_adapters_weights_make_a_plain_model_that_says_the_same(family):
    model = add_lora(make_model(family))
    plain = make_model(family, seed=1)
    plain.load_state_dict(copies(model))  # every name, and no other
    torch.testing.assert_close(logits_of(plain), logits_of(model), rtol=0, atol=1e-5)
    assert (logits_of(plain) - logits_of(make_model(family))).abs().max() > 0.1  # the adapter does something


@pytest.mark.parametrize("family", LORA_FAMILIES)
def test_a_live_model_is_the_same_afterwards(family):
    model = add_lora(make_model(family))
    before, said = bytes_of(model), logits_of(model)
    copies(model)
    assert bytes_of(model) == before
    assert merged_layers(model) == []
    assert torch.equal(logits_of(model), said)


@pytest.mark.parametrize("family", LORA_FAMILIES)
def test_a_live_model_is_the_same_when_the_iteration_ends_anywhere(family):
    model = add_lora(make_model(family))
    before, was_merged = bytes_of(model), 0
    for count in range(1, len(copies(model)) + 1):
        weights = checkpoint_weights(model)
        for _ in range(count):
            next(weights)
        was_merged += bool(merged_layers(model))
        weights.close()
        assert (bytes_of(model), merged_layers(model)) == (before, [])
    assert was_merged == sum(hasattr(module, "lora_A") for module in model.modules())


def test_an_error_of_who_reads_leaves_the_model_the_same():
    model = add_lora(make_model("qwen3"))
    before = bytes_of(model)

    def read():
        for name, _ in checkpoint_weights(model):
            if name.endswith("k_proj.weight"):
                raise RuntimeError("the reader fails")

    with pytest.raises(RuntimeError, match="the reader fails"):
        read()
    assert (bytes_of(model), merged_layers(model)) == (before, [])


@pytest.mark.parametrize("family", LORA_FAMILIES)
def test_a_disabled_adapter_is_not_in_the_weights(family):
    base = make_model(family)
    expected = bytes_of(base)
    model = add_lora(base)
    before = bytes_of(model)
    with model.disable_adapter():
        found = {name: weight.numpy().tobytes() for name, weight in copies(model).items()}
    assert found == expected
    assert bytes_of(model) == before
    torch.testing.assert_close(copies(model), copies(model), rtol=0, atol=0)
    assert {n: w.numpy().tobytes() for n, w in copies(model).items()} != expected  # it is back


def test_an_adapter_on_one_of_two_tied_weights_leaves_the_other():
    config = LoraConfig(r=4, target_modules=["embed_tokens"], init_lora_weights=False)
    with warnings.catch_warnings(action="ignore"):  # peft: a tied layer is part of the adapter
        model = get_peft_model(make_model("qwen3", tie_word_embeddings=True), config).eval()
    plain = make_model("qwen3", seed=1, tie_word_embeddings=False)
    plain.load_state_dict(copies(model))
    torch.testing.assert_close(logits_of(plain), logits_of(model), rtol=0, atol=1e-5)


def test_no_weight_has_a_gradient():
    assert not any(weight.requires_grad for _, weight in checkpoint_weights(add_lora(make_model("gpt2"))))
