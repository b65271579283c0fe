"""Shards a live policy among its trainers: torch's FSDP2 (`fully_shard`, arXiv:2304.11277).

Each trainer holds its part of every weight, gradient and moment. A pass over the model gathers the weights of one layer
at a time, while the next are on their way, and those outside of the layers, embedding and head, for the whole pass.
With `shard_grad_op`, torch's name for it, gathered weights are kept from the first pass of an update to its last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers.modeling_layers import GradientCheckpointingLayer

from rlft.config.rollout import Sharding

_Part = TypeVar("_Part")
Read = Callable[[], tuple[Tensor | None, ...]]


class Sharded(nn.Module):
    """Holds a model whose weights are sharded; all that reads them runs inside a call of this module.

    Reading goes past the model's own `forward`, backbone and head each by itself, which gathers nothing.
    """

    def __init__(self, model: nn.Module, sharding: Sharding) -> None:
        super().__init__()
        self.model, self.sharding = model, sharding

    def forward(self, read: Read) -> tuple[Tensor | None, ...]:
        """Return the tensors that `read` returns, whose backward pass gathers the weights again."""
        return tuple(None if tensor is None else tensor.clone() for tensor in read())  # hooks get lost on views

    def give_up(self) -> None:
        """Give up all gathered weights."""
        for module in self.modules():
            if isinstance(module, FSDPModule):
                module.reshard()


def shard(model: nn.Module, mesh: DeviceMesh, sharding: Sharding = "full_shard") -> Sharded:
    """Shard a model's weights in place over the trainers of `mesh`; return what reads it from then on.

    Gradients are summed over the trainers, in float32 at least, and not averaged. What runs the model to find out about
    it must have done so before. The model must be the same on all trainers.
    """
    root = Sharded(model, sharding)
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    inner = {id(part) for layer in layers for part in layer.modules() if part is not layer}
    half = any(parameter.dtype in (torch.float16, torch.bfloat16) for parameter in model.parameters())
    precision = MixedPrecisionPolicy(reduce_dtype=torch.float32 if half else None, cast_forward_inputs=False)
    outer = [layer for layer in layers if id(layer) not in inner]
    for module in (*outer, root):
        again = sharding == "full_shard" and module is not root
        made: FSDPModule = fully_shard(module, mesh=mesh, reshard_after_forward=again, mp_policy=precision)
        made.set_gradient_divide_factor(1.0)
        made.set_force_sum_reduction_for_comms(True)  # gloo has no other
    _prefetch([root, *outer])
    return root


def _prefetch(modules: Sequence[Any]) -> None:
    """Have each module's weights gathered while the one before it computes; on GPUs torch does so backwards anyway."""
    for first, second in pairwise(modules):
        first.set_modules_to_forward_prefetch([second])
    for first, second in pairwise(modules[1:]):
        second.set_modules_to_backward_prefetch([first])


def of_one_update(sharded: Sharded | None, parts: Sequence[_Part]) -> Iterable[_Part]:
    """Yield the parts of an update, each of which takes one forward and one backward pass.

    With `shard_grad_op` weights stay gathered until the backward pass of the last part is over.
    """
    root: Any = sharded
    for number, part in enumerate(parts, 1):
        if sharded is not None and sharded.sharding == "shard_grad_op":
            root.set_reshard_after_backward(number == len(parts))
        yield part


def read_through(sharded: Sharded | None, read: Read) -> tuple[Tensor | None, ...]:
    """Return the tensors that `read` returns, which runs the model; through `sharded` if its weights are sharded."""
    if sharded is None:
        return read()
    found = sharded(read)
    if not torch.is_grad_enabled():  # no backward pass will do it, and an optimizer step would leave gathered ones old
        sharded.give_up()
    return found


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor without gradient, of a sharded one all of it; all trainers must call this together."""
    own = tensor.detach()
    return own.full_tensor() if isinstance(own, DTensor) else own


def sharded_as(tensor: Tensor, like: Tensor) -> Tensor:
    """Return this trainer's part of a whole tensor that all trainers have, if `like` is sharded; on its device."""
    if not isinstance(like, DTensor):
        return tensor.to(like.device)
    mesh, places = like.device_mesh, like.placements
    return distribute_tensor(tensor.to(like.device), mesh, places, src_data_rank=None)


def whole_copies(tensors: Mapping[str, Tensor], *, keeps: bool) -> dict[str, Tensor]:
    """Return whole copies in the machine's memory, for the trainer that `keeps` them; the others get empty tensors.

    All must call this with the same names in the same order: one tensor after the other is gathered from all. A tensor
    under several names is copied once, so that tied weights stay tied.
    """
    known: dict[int, Tensor] = {}
    for tensor in tensors.values():
        if id(tensor) not in known:
            found = whole(tensor)
            known[id(tensor)] = found.cpu().clone() if keeps else found.new_empty(0)
    return {name: known[id(tensor)] for name, tensor in tensors.items()}
