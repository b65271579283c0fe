"""Reads back the weights of a vLLM after a push, or its checksums of them, and compares them with the trainer's.

Every value must be the same. vLLM joins some tensors (`packed_modules_mapping`), pads vocabularies and transposes
GPT-2's `Conv1D`: the trainer's are joined and transposed in the same way before they are compared. On a CPU vLLM packs
a layer's weights for its kernels and drops the tensor: such a layer is applied to the identity matrix, which gives its
weights.

Some tensors vLLM keeps in another form, so that their values are not the trainer's after the first push although it
changed them. Of these it is only checked that they change when the trainer's do; canaries (`rlft.engines.proof`) show
whether they are right.

A server tells the SHA-256 of the bytes of every tensor that it keeps (`ServerChecksums`). One whose checksum was the
trainer's once, alone or joined, must have the trainer's after every later push. Others are large, and left to canaries;
small ones, whose effect rounding may hide from canaries, are kept as they are.
"""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from rlft.errors import EngineError
from rlft.models import Policy
from rlft.models.weights import checkpoint_weights

logger = logging.getLogger(__name__)

WEIGHTS_COMPARED = "engine/weights_compared"  # metric: share of the policy's values that were equal, 0 to 1
_NAMED = 3  # most names in a message
_BLOCK = 256  # rows of the identity matrix at a time


class Readback:
    """Compares the weights of one engine with a policy's, push after push."""

    def __init__(self) -> None:
        self.compared = 0.0  # share of the policy's values that were equal to the engine's in the last check
        self._apart: dict[str, tuple[int, int]] = {}  # hashes of what vLLM keeps in another form, its and the trainer's
        self._at_start: dict[str, int] | None = None  # hashes before the first push; None once that was checked

    @torch.no_grad()
    def begin(self, engine: nn.Module, policy: Policy) -> None:
        """Note which weights the engine has before its first push, so that `check` sees which of them stayed."""
        self._at_start = {name: _hash(theirs) for name, theirs, _ in _pairs(engine, policy) if theirs is not None}

    @torch.no_grad()
    def check(self, engine: nn.Module, policy: Policy) -> None:
        """Compare the weights after a push. Raises EngineError, with the tensors' names, if one has not arrived."""
        wrong: list[str] = []
        unread: list[str] = []
        apart: dict[str, tuple[int, int]] = {}
        equal, total = 0, 0
        for name, theirs, ours in _pairs(engine, policy):
            total += ours.numel()
            if theirs is None:
                unread.append(name)
                continue
            if torch.equal(theirs, ours):
                equal += ours.numel()
                continue
            apart[name] = now = (_hash(theirs), _hash(ours))
            if self._is_stale(name, *now):
                wrong.append(name)
        refuse_stale(wrong, "vLLM")
        if self._at_start is not None and (apart or unread):
            logger.info("vLLM keeps these in another form, canaries show if they are right: %s", [*apart, *unread])
        self._at_start, self._apart = None, apart
        self.compared = equal / max(total, 1)

    def _is_stale(self, name: str, theirs: int, ours: int) -> bool:
        """Return whether a tensor that is not equal to the trainer's has not arrived, given the hashes of both."""
        if self._at_start is not None:
            return self._at_start.get(name) == theirs
        if name not in self._apart:  # it was equal to the trainer's before, so it is not kept in another form
            return True
        before, ours_before = self._apart[name]
        return theirs == before and ours != ours_before


def refuse_stale(names: Sequence[str], engine: str) -> None:
    """Raise EngineError if there are `names` of tensors that have not arrived."""
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        raise EngineError(
            f"{engine} does not have the policy's weights after a push: {', '.join(names[:_NAMED])}{more}",
            where="rollout.engine",
            fix="this is an error of vLLM or of rlft: please report it; rollout.engine: transformers goes on",
        )


def _pairs(engine: nn.Module, policy: Policy) -> Iterator[tuple[str, Tensor | None, Tensor]]:
    """Yield the engine's name of every tensor, the engine's values, and the trainer's in the same type.

    The engine's are `None` where it has nothing under that name. Rows with which it pads a vocabulary are left out.
    """
    packed: dict[str, list[str]] = getattr(engine, "packed_modules_mapping", None) or {}
    for name, parts in as_joined(policy, packed):
        width = next(iter(parts.values())).shape[-1]
        found = list(_readings(engine, name, width)) or [(name, None)]
        for said, whole in found:
            first = 0
            for part, ours in parts.items():
                named = said if len(parts) == 1 else f"{said} [{part}]"
                if whole is None:
                    yield named, None, ours
                else:
                    yield named, whole[first : first + len(ours)], ours.to(whole.device, whole.dtype)
                first += len(ours)


def as_joined(policy: Policy, packed: Mapping[str, list[str]]) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """Yield the policy's weights by vLLM's names, each with the parts that vLLM joins, in their order.

    `packed` is vLLM's `packed_modules_mapping`: {joined module: its parts}. Parts are transposed as vLLM has them.
    """
    joins = {part: (joined, parts) for joined, parts in packed.items() for part in parts}
    turned = {_plain(name) for name, module in policy.model.named_modules() if isinstance(module, Conv1D)}
    waiting: dict[str, dict[str, Tensor]] = defaultdict(dict)
    for name, weight in checkpoint_weights(policy.model):
        path, _, leaf = name.rpartition(".")
        parent, _, last = path.rpartition(".")
        joined, parts = joins.get(last, (last, [last]))
        whole = ".".join(part for part in (parent, joined, leaf) if part)
        waiting[whole][last] = weight.T if path in turned and leaf == "weight" else weight
        if len(waiting[whole]) == len(parts):
            tensors = waiting.pop(whole)
            yield whole, {part: tensors[part] for part in parts}
    yield from waiting.items()


def _plain(name: str) -> str:
    """Return a module's name as it is without an adapter."""
    return name.removeprefix("base_model.model.").removesuffix(".base_layer")


def _readings(engine: nn.Module, name: str, width: int) -> Iterator[tuple[str, Tensor]]:
    """Yield the engine's tensor of this name, and the one that it packed for its kernels: a tied embedding has both.

    `width` is the layer's number of inputs. Nothing is yielded if the engine has no such tensor.
    """
    place, _, leaf = name.rpartition(".")
    try:
        module: Any = engine.get_submodule(place)
    except AttributeError:
        return
    tensor = getattr(module, leaf, None)
    if not isinstance(tensor, Tensor):
        return
    if tensor.numel():  # it is empty once it was packed
        yield name, tensor
    if leaf == "weight" and hasattr(module, "cpu_linear"):
        rows = torch.eye(width, dtype=tensor.dtype).split(_BLOCK)
        yield f"{name} (packed)", torch.cat([module.cpu_linear(row, tensor, None) for row in rows]).T


def _hash(tensor: Tensor) -> int:
    return int(torch.hash_tensor(tensor).item())


# How vLLM joins modules of most models.
_JOINED = {"qkv_proj": ["q_proj", "k_proj", "v_proj"], "gate_up_proj": ["gate_proj", "up_proj"]}


class PolicyChecksums:
    """Holds the checksums of a policy's tensors by vLLM's names, computed once for all servers."""

    def __init__(self, policy: Policy) -> None:
        tensors = {name: list(parts.values()) for name, parts in as_joined(policy, _JOINED)}
        # Sizes are in numbers, by tensor; both hold joined tensors where vLLM joins them.
        self.sizes = {name: sum(part.numel() for part in parts) for name, parts in tensors.items()}
        self.by_name = {name: _checksum(torch.cat(parts)) for name, parts in tensors.items()}


class ServerChecksums:
    """Remembers which tensors of one server were once equal to the trainer's, and checks that they stay so."""

    def __init__(self) -> None:
        self.compared = 0.0  # share of the policy's values that were equal to the server's in the last check
        self._arrived: set[str] | None = None

    def check(self, theirs: Mapping[str, str], ours: PolicyChecksums, server: str) -> None:
        """Compare the checksums after a push; `server` is its address, for messages.

        Raises EngineError, with the names of the tensors, if one that was equal before is not.
        """
        equal = {name for name, checksum in ours.by_name.items() if theirs.get(name) == checksum}
        first = self._arrived is None
        if self._arrived is not None:
            refuse_stale([name for name in ours.by_name if name in self._arrived - equal], server)
        self._arrived = equal | (self._arrived or set())
        self.compared = sum(ours.sizes[name] for name in equal) / max(sum(ours.sizes.values()), 1)
        if first and len(equal) < len(ours.by_name):
            apart = [name for name in ours.by_name if name not in equal]
            logger.info("%s keeps these in another form, canaries show if they are right: %s", server, apart)


def of_all_workers(answers: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the checksums of all workers by the tensor's name alone; tensors that differ between workers are left out.

    In the answers a tensor's name follows its worker's and a colon. Those that differ are shards of one tensor.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for answer in answers:
        for name, checksum in answer.items():
            found[name.rpartition(":")[2]].add(checksum)
    return {name: next(iter(checksums)) for name, checksums in found.items() if len(checksums) == 1}


def _checksum(tensor: Tensor) -> str:
    return hashlib.sha256(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data).hexdigest()
