"""A team of processes, which talk through torch's collectives: gloo on CPUs, NCCL on GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from rlft.training.team import Team


class ProcessTeam(Team):
    """A worker of a team of processes; `mesh` is what a policy is sharded over."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.mesh: DeviceMesh = init_device_mesh(device.type, (self.size,))
        self._device = device

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """Return the numbers of every worker, by rank; workers may have differently many."""
        counts = [int(count) for (count,) in self._gather(torch.tensor([float(len(numbers))]))]
        padded = torch.zeros(max(counts), dtype=torch.float64)
        padded[: len(numbers)] = torch.tensor(list(numbers), dtype=torch.float64)
        return [row[:count] for row, count in zip(self._gather(padded), counts, strict=True)]

    def _gather(self, numbers: torch.Tensor) -> list[list[float]]:
        """Return the tensors of all workers, which have the same shape, as lists."""
        own = numbers.to(self._device, torch.float64)
        found = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(found, own)
        return [each.tolist() for each in found]


@contextmanager
def joined(address: str, *, rank: int, size: int, device: torch.device, seconds: float) -> Iterator[ProcessTeam]:
    """Provide the team of `size` processes that all come to `address`, which is `tcp://HOST:PORT` or `file://PATH`.

    A collective in which one of them has not taken part after so many seconds raises RuntimeError in the others.
    """
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(
        backend, init_method=address, rank=rank, world_size=size, timeout=timedelta(seconds=seconds)
    )
    try:
        yield ProcessTeam(device)
    finally:
        dist.destroy_process_group()
