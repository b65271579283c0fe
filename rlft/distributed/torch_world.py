"""A world of processes, which talk through torch's collectives: gloo on CPUs, NCCL on GPUs."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import psutil
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from rlft.distributed.local_cluster import LOOPBACK
from rlft.errors import DistributedError
from rlft.training.world import World


class TorchWorld(World):
    """A trainer of a world of processes; `mesh` is what a policy is sharded over."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.mesh: DeviceMesh = init_device_mesh(device.type, (self.size,))
        self._device = device

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """Return the numbers of every trainer, by rank; trainers may have differently many."""
        counts = [int(count) for (count,) in self._gather(torch.tensor([float(len(numbers))]))]
        if not any(counts):
            return [[] for _ in counts]
        padded = torch.zeros(max(counts), dtype=torch.float64)
        padded[: len(numbers)] = torch.tensor(list(numbers), dtype=torch.float64)
        return [row[:count] for row, count in zip(self._gather(padded), counts, strict=True)]

    def _gather(self, numbers: torch.Tensor) -> list[list[float]]:
        """Return the tensors of all trainers, which have the same shape, as lists."""
        own = numbers.to(self._device, torch.float64)
        found = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(found, own)
        return [each.tolist() for each in found]


def join(
    place: Path, *, rank: int, size: int, device: torch.device, seconds: float, address: str = LOOPBACK
) -> TorchWorld:
    """Return this process's place in the world of `size` processes that all meet by the new file `place`.

    They listen on the network interface that has `address` alone. A collective in which one of them has not taken
    part after so many seconds raises RuntimeError in the others.
    """
    # By a file, since torch's store over TCP listens on every address, and asks nobody who it is.
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = interface(address)
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        init_method=f"file://{place}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=seconds),
    )
    return TorchWorld(device)


def leave() -> None:
    """Leave the world that `join` has made."""
    dist.destroy_process_group()


def interface(address: str) -> str:
    """Return the name of the network interface of this machine that has an address; all of 127.0.0.0/8 are loopback's.

    Raises DistributedError if none has it.
    """
    wanted = LOOPBACK if address.startswith("127.") else address
    for name, has in psutil.net_if_addrs().items():
        if any(each.address == wanted for each in has):
            return name
    raise DistributedError(
        f"no network interface of {platform.node()} has the address {address}, by which Ray knows it",
        where="distributed.address",
        fix="start Ray there with --node-ip-address and an address of its own",
    )
