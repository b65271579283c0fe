import sys
from unittest import mock

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from rlft.models.fused import _apply_rotary, _RmsNorm, _Rotary, _SwiGlu, find_fusible, fused
from tests.rlft.models.small_models import add_lora, make_model

ids = torch.arange(24).view(2, 12) % 13 + 2


def gradients(model, replacements=()):
    """Logits and gradients of all parameters, the loss weighing every logit differently."""
    model.zero_grad()
    with fused(replacements):
        logits = model(input_ids=ids.to(model.device)).logits
        weights = torch.linspace(-1, 1, logits.numel(), dtype=logits.dtype, device=logits.device)
        (logits * weights.view(logits.shape)).sum().backward()
    return logits.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def kinds(replacements):
    return {type(place.holder).__name__ for place in replacements}


@pytest.mark.parametrize("family", ["qwen3", "llama", "gemma", "gemma2", "mistral"])
@pytest.mark.parametrize("lora", [False, True])
def test_gradients_are_those_of_the_model(family, lora):
    model = make_model(family, sharpness=1.5).eval()
    if lora:
        model = add_lora(model)
    wanted_logits, wanted = gradients(model)
    found = find_fusible(model)
    logits, ours = gradients(model, found)
    assert len(found) > 4
    assert_close(logits, wanted_logits, rtol=0, atol=1e-5)
    assert ours.keys() == wanted.keys()
    for name, gradient in ours.items():
        difference, size = (gradient - wanted[name]).norm(), wanted[name].norm()
        assert difference <= 1e-5 * size, f"{name}: {difference / size:.2g}"


def test_what_is_found_depends_on_what_is_computed():
    assert kinds(find_fusible(make_model("qwen3"))) == {"Qwen3RMSNorm", "Qwen3MLP", "Qwen3Attention"}
    # Gemma's MLP has another activation than SiLU; gpt2 has none of the three.
    assert kinds(find_fusible(make_model("gemma"))) == {"GemmaRMSNorm", "GemmaAttention"}
    assert find_fusible(make_model("gpt2")) == []


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_types_are_left_alone(dtype):
    assert find_fusible(make_model("qwen3", dtype=dtype)) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_in_half_precision_on_a_gpu_it_is_as_near_to_the_truth(family):
    model = make_model(family, sharpness=1.5).eval()
    _, exact = gradients(model.double().to("cuda"))
    model.bfloat16()
    found = find_fusible(model)
    assert len(found) > 4
    (_, plain), (_, ours) = gradients(model), gradients(model, found)
    plain_off, our_off = (sum(float((g[n].double() - exact[n]).norm()) for n in exact) for g in (plain, ours))
    assert our_off < 1.2 * plain_off


class Exact(nn.Module):
    """The three formulas in any type, as the papers write them."""

    def forward(self, x, weight, gate, up, cos, sin):
        norm = weight * x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()
        half = x.shape[-1] // 2
        turned = x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin
        return norm, gate * gate.sigmoid() * up, turned


def test_derivatives_to_the_last_digit():
    torch.manual_seed(0)
    inputs = [torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    x, gate, up = inputs
    weight = torch.randn(8, dtype=torch.float64, requires_grad=True)
    cos, sin = torch.randn(2, 2, 3, 8, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x, w: _RmsNorm.apply(x, w, 1e-6), (x, weight))
    assert torch.autograd.gradcheck(_SwiGlu.apply, (gate, up))
    assert torch.autograd.gradcheck(lambda x: _Rotary.apply(x, cos, sin), (x,))
    ours = _RmsNorm.apply(x, weight, 1e-6), _SwiGlu.apply(gate, up), _Rotary.apply(x, cos, sin)
    for found, wanted in zip(ours, Exact()(x, weight, gate, up, cos, sin), strict=True):
        assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_a_norm_that_does_more_is_left_alone():
    class More(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.eps = nn.Parameter(torch.ones(8)), 1e-6

        def forward(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight + 0.01

    assert find_fusible(More()) == []


def test_a_hook_is_not_passed_over():
    model = make_model("qwen3")
    model.model.norm.register_forward_hook(lambda module, inputs, output: output * 2)
    assert model.model.norm not in [place.holder for place in find_fusible(model)]


def test_the_model_is_as_before_also_after_an_error():
    model = make_model("llama")
    replacements = find_fusible(model)
    before = [getattr(place.holder, place.name) for place in replacements]

    def fail():
        with fused(replacements):
            assert [getattr(place.holder, place.name) for place in replacements] != before
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [getattr(place.holder, place.name) for place in replacements] == before
    assert not any("forward" in vars(module) for module in model.modules())


def test_another_model_of_the_same_code_is_left_alone():
    # It may be sampling in another thread, and would round otherwise there while this one trains.
    model, other = make_model("qwen3", sharpness=1.5), make_model("qwen3", sharpness=1.5)
    rotating = [place for place in find_fusible(model) if type(place.holder).__name__ == "Qwen3Attention"]
    assert [place.holder for place in rotating] == [layer.self_attn for layer in model.model.layers]
    alone = other(input_ids=ids).logits
    with fused(find_fusible(model)):
        assert sys.modules[type(model).__module__].apply_rotary_pos_emb is not _apply_rotary
        assert torch.equal(other(input_ids=ids).logits, alone)
        with mock.patch.object(_Rotary, "forward", side_effect=_Rotary.forward) as called:
            model(input_ids=ids)
    assert called.call_count == 2 * len(rotating)  # of queries and of keys
