"""Layers computed again in the backward pass: the same numbers, less memory, and a model left as it was."""

import pytest
import torch
from torch import nn

from rlft.training.logprobs import gradient_checkpointing
from tests.rlft.attention.models import FAMILIES, add_lora, make_model

IDS = torch.tensor([[3, 4, 5, 6, 7, 8, 9, 10]])


def first_layer(model):
    inner = getattr(model, "base_model", model)
    return next(layers for layers in inner.modules() if isinstance(layers, nn.ModuleList))[0]


def train_once(model, wanted):
    """The loss, the gradients, and how many numbers autograd kept on the way."""
    model.zero_grad(set_to_none=True)
    kept = []

    def pack(tensor):
        kept.append(tensor.numel())
        return tensor

    with gradient_checkpointing(model, wanted):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            logits = model(IDS, use_cache=False).logits
            on_the_way = sum(kept)
        loss = logits.log_softmax(-1)[0, :, 3].sum()
        loss.backward()
    return loss.item(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}, on_the_way


KINDS = [(family, lora) for family in (*FAMILIES, "opt", "bloom", "mistral") for lora in (False, True)]


@pytest.mark.parametrize(("family", "lora"), [*KINDS, ("mamba", False)])  # peft has no adapter for all of mamba
def test_the_same_gradients_from_less(family, lora):
    model = make_model(family)
    model = add_lora(model) if lora else model
    loss, gradients, kept = train_once(model, False)
    again, recomputed, less = train_once(model, True)
    assert again == loss
    assert recomputed.keys() == gradients.keys()
    assert all(torch.equal(recomputed[name], gradients[name]) for name in gradients)
    assert less < 0.5 * kept


def test_every_layer_is_computed_twice():
    model = make_model("qwen3")
    calls = []
    for number, layer in enumerate(model.model.layers):
        layer.mlp.register_forward_pre_hook(lambda *_, number=number: calls.append(number))
    train_once(model, False)
    assert calls == [0, 1]
    calls.clear()
    train_once(model, True)
    assert calls == [0, 1, 1, 0]


DROPOUTS = {
    "gpt2": {"resid_pdrop": 0.5, "attn_pdrop": 0.5, "embd_pdrop": 0.5},
    "opt": {"dropout": 0.5, "attention_dropout": 0.5},  # its layers call dropout themselves, by their own flag
}


@pytest.mark.parametrize("family", DROPOUTS)
def test_no_dropout_and_no_random_numbers(family):
    model = make_model(family, **DROPOUTS[family])
    before = torch.random.get_rng_state()
    loss, gradients, _ = train_once(model, False)
    again, recomputed, _ = train_once(model, True)
    assert again == loss
    assert all(torch.equal(recomputed[name], gradients[name]) for name in gradients)
    assert torch.equal(torch.random.get_rng_state(), before)


def traces(model):
    hooks = [(len(module._forward_hooks), len(module._forward_pre_hooks)) for module in model.modules()]
    flags = [(module.training, getattr(module, "gradient_checkpointing", False)) for module in model.modules()]
    return hooks, flags


@pytest.mark.parametrize("lora", [False, True])
def test_the_model_is_left_as_it_was(lora):
    model = make_model("qwen3")
    model = add_lora(model) if lora else model
    before = traces(model)
    for _ in range(3):
        train_once(model, True)
    assert traces(model) == before
    with pytest.raises(RuntimeError, match="out of memory"), gradient_checkpointing(model, True):
        raise RuntimeError("out of memory")
    assert traces(model) == before
    assert model.get_input_embeddings()(IDS).requires_grad != lora  # nothing asks frozen weights for gradients
    with torch.inference_mode():
        model(IDS)


def test_a_backward_pass_outside_leaves_the_flags_alone():
    model = make_model("qwen3")
    with gradient_checkpointing(model, True):
        loss = model(IDS, use_cache=False).logits.sum()
    before = traces(model)
    loss.backward()
    assert traces(model) == before
    assert not any(module.training for module in model.modules())


def test_not_wanted_nothing_happens():
    model = make_model("qwen3")
    before = traces(model)
    with gradient_checkpointing(model, False):
        assert traces(model) == before
    with gradient_checkpointing(nn.Linear(2, 2), False):
        pass


def test_a_model_that_cannot():
    with pytest.raises(ValueError, match=r"Linear cannot checkpoint; set training\.gradient_checkpointing to false"):
        gradient_checkpointing(nn.Linear(2, 2), True).__enter__()
