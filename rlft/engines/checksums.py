"""Checksums of the weights that a server has, compared with the trainer's after every push.

vLLM tells the SHA-256 of the bytes of every tensor that it keeps. A tensor whose checksum was the trainer's once, alone
or joined as vLLM joins it, must have the trainer's after every later push. Others vLLM keeps in another form: padded,
cut in shards, or, on a CPU, packed for its kernels. These are large, and canaries (`rlft.engines.proof`) see whether
they are right; small ones, whose effect rounding may hide from canaries, are kept as they are.
"""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from rlft.engines.readback import as_joined, refuse_stale
from rlft.policy import Policy

logger = logging.getLogger(__name__)

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
