"""Faster RMSNorm, SwiGLU and rotary positions for training, with gradients written by hand.

As models write these small operations, each makes several tensors that are read again for the gradient; on a CPU that
memory traffic, not arithmetic, is what they cost. The gradients are those of the same formulas (arXiv:1910.07467,
arXiv:2002.05202, arXiv:2104.09864). A model is not changed: inside `fused` its modules run this code instead, where a
comparison has shown that it computes the same.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

_PARTS = {"gate_proj", "up_proj", "down_proj", "act_fn"}  # submodules of a gated MLP in Llama and its relatives
_ROTARY = "apply_rotary_pos_emb"  # the function in the code of these models
_TOLERANCE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-6},
    torch.bfloat16: {"rtol": 2e-2, "atol": 3e-2},  # for numbers around 2 that are rounded two or three times
}


@dataclass(frozen=True, slots=True)
class Replacement:
    """Names an attribute of the layer `holder`, and its faster `function`."""

    holder: Any
    name: str
    function: Callable[..., Any]


@contextmanager
def fused(replacements: Sequence[Replacement]) -> Iterator[None]:
    """Put the replacements of `find_fusible` in place inside the context."""
    before = [vars(place.holder).get(place.name) for place in replacements]
    try:
        for place in replacements:
            setattr(place.holder, place.name, place.function)
        yield
    finally:
        for place, old in zip(replacements, before, strict=True):
            if old is None:  # it was the class's `forward`, which the instance's attribute has hidden
                delattr(place.holder, place.name)
            else:
                setattr(place.holder, place.name, old)


@torch.no_grad()
def find_fusible(model: nn.Module) -> list[Replacement]:
    """Return what of this model can be replaced: every candidate is compared with the model's own on a few numbers.

    On a CPU that is done in float32 only: in half precision models round between the operations, each in its own way.
    On a GPU torch's kernel for the norm is taken; it rounds once where models in half precision round twice.
    """
    parameter = next(model.parameters())
    if parameter.dtype not in _TOLERANCE or (parameter.device.type == "cpu" and parameter.dtype != torch.float32):
        return []
    found: list[Replacement] = []
    for module in model.modules():
        if "forward" in vars(module) or module._forward_hooks or module._forward_pre_hooks:
            continue  # a library has changed what the module does
        found += _norm(module) or _mlp(module)
    return found + _rotary(model)


def _norm(module: nn.Module) -> list[Replacement]:
    eps, weight = getattr(module, "variance_epsilon", getattr(module, "eps", None)), getattr(module, "weight", None)
    alone = not list(module.children()) and len(list(module.parameters())) == 1
    if not alone or not isinstance(eps, float) or not isinstance(weight, nn.Parameter) or weight.dim() != 1:
        return []
    given = module.forward
    # Gemma stores the weight minus one. In half precision the sum would be rounded, so it is not tried there.
    for offset in (0.0, 1.0) if weight.dtype == torch.float32 else (0.0,):

        def forward(x: Tensor, *, offset: float = offset) -> Tensor:
            own: Any = module.weight
            if x.is_cuda:
                whole = own + offset if offset else own
                return F.rms_norm(x, own.shape, whole, eps) if x.dtype == own.dtype else given(x)
            return _RmsNorm.apply(x, own + offset if offset else own, eps)  # type: ignore[reportReturnType]

        if _same(module.forward, forward, _numbers(weight, 3, len(weight))):
            return [Replacement(module, "forward", forward)]
    return []


def _mlp(module: nn.Module) -> list[Replacement]:
    parts: Any = module
    if {name for name, _ in module.named_children()} != _PARTS:
        return []

    def forward(x: Tensor) -> Tensor:
        return parts.down_proj(_SwiGlu.apply(parts.gate_proj(x), parts.up_proj(x)))

    weight = next(parts.gate_proj.parameters())
    same = _same(module.forward, forward, _numbers(weight, 3, parts.gate_proj.in_features))
    return [Replacement(module, "forward", forward)] if same else []


def _rotary(model: nn.Module) -> list[Replacement]:
    """Return replacements of the attention layers whose rotary function computes what ours does."""
    like = next(model.parameters())
    found: list[Replacement] = []
    for code in {type(module).__module__ for module in model.modules() if hasattr(module, "layer_idx")}:
        own = getattr(sys.modules[code], _ROTARY, None)
        if own is None or list(inspect.signature(own).parameters) != ["q", "k", "cos", "sin", "unsqueeze_dim"]:
            continue
        tensors = (
            _numbers(like, 1, 2, 3, 8),
            _numbers(like, 1, 1, 3, 8),
            _numbers(like, 1, 3, 8),
            _numbers(like, 1, 3, 8),
        )
        if _same(own, _apply_rotary, *tensors):
            found += _rotating(model, own)
    return found


def _rotating(model: nn.Module, own: Callable[..., Any]) -> list[Replacement]:
    """Return replacements of the layers that call `own`, with which each calls the faster function.

    The name in the Python module of their code is left alone: other models with that code may be read at the same time.
    """
    found: list[Replacement] = []
    for module in model.modules():
        given = type(module).forward
        if "forward" in vars(module) or not isinstance(given, FunctionType):
            continue
        if _ROTARY in given.__code__.co_names and given.__globals__.get(_ROTARY) is own:
            known = {**given.__globals__, _ROTARY: _apply_rotary}
            ours = FunctionType(given.__code__, known, given.__name__, given.__defaults__, given.__closure__)
            ours.__kwdefaults__ = given.__kwdefaults__
            found.append(Replacement(module, "forward", MethodType(ours, module)))
    return found


def _numbers(like: Tensor, *shape: int) -> Tensor:
    """Return a tensor of this shape and the type and device of `like`, with various numbers, the same every time."""
    count = int(torch.tensor(shape).prod())
    numbers = torch.linspace(-2.0, 3.0, count).sin().mul(2).add(0.1).view(shape)
    return numbers.to(like.device, like.dtype)


def _same(own: Callable[..., Any], ours: Callable[..., Any], *inputs: Tensor) -> bool:
    try:
        theirs, found = own(*inputs), ours(*inputs)
    except (TypeError, ValueError, RuntimeError, AttributeError):  # it takes other inputs, so it is another operation
        return False
    theirs, found = (tuple(part) if isinstance(part, tuple) else (part,) for part in (theirs, found))
    pairs = zip(theirs, found, strict=True)
    return all(a.dtype == b.dtype and torch.allclose(a, b, **_TOLERANCE[a.dtype]) for a, b in pairs)


class _RmsNorm(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        rate = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(x, weight, rate)
        return (x * rate).mul_(weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # type: ignore[reportIncompatibleMethodOverride]
        x, weight, rate = ctx.saved_tensors
        normal = x * rate
        product = (gradient * normal).flatten(0, -2)
        along = (product @ weight).div_(x.shape[-1]).unflatten(0, x.shape[:-1]).unsqueeze(-1)
        by_weight = product.sum(0) if ctx.needs_input_grad[1] else None
        return (gradient * weight).addcmul_(normal, along, value=-1).mul_(rate), by_weight, None


class _SwiGlu(Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return F.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # type: ignore[reportIncompatibleMethodOverride]
        gate, up = ctx.saved_tensors
        return torch.ops.aten.silu_backward(gradient * up, gate), F.silu(gate).mul_(gradient)


def _apply_rotary(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return _Rotary.apply(q, cos, sin), _Rotary.apply(k, cos, sin)  # type: ignore[reportReturnType]


class _Rotary(Function):
    """Rotates pairs of one number from each half of the width: (a, b) to (a cos - b sin, b cos + a sin)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        half = x.shape[-1] // 2
        output = x * cos
        output[..., :half].addcmul_(x[..., half:], sin[..., :half], value=-1)
        output[..., half:].addcmul_(x[..., :half], sin[..., half:])
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # type: ignore[reportIncompatibleMethodOverride]
        cos, sin = ctx.saved_tensors
        half = gradient.shape[-1] // 2
        by_x = gradient * cos
        by_x[..., :half].addcmul_(gradient[..., half:], sin[..., half:])
        by_x[..., half:].addcmul_(gradient[..., :half], sin[..., :half], value=-1)
        return by_x, None, None
