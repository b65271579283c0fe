"""A process that trains with others: it keeps its part of the policy from round to round.

The processes talk through torch's collectives: gloo on CPUs, NCCL on GPUs (`TorchWorld`). Each says how far it is
(`Pulse`).
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import psutil
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from rlft.config.rollout import Sharding
from rlft.environments.contract.faults import note_place
from rlft.errors import DistributedError
from rlft.models import Policy, PolicyFolder, load_policy
from rlft.models.folder import save_sharded_policy
from rlft.models.origin import choose_device
from rlft.training.batching import World
from rlft.training.distributed.cluster import LOOPBACK, address_here
from rlft.training.job import Job, train_job
from rlft.types import TrainReport


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


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a trainer has done so far: its `beats` rise with everything that it does.

    `done` of `total` are done of `what`, as `rlft.progress.Progress` takes them; the total is that of all trainers.
    """

    beats: int = 0
    done: float = 0.0
    total: float | None = None
    what: str = ""
    tokens: int | None = None


class TrainerActor:
    """One of the processes. All are called with the same arguments; `pulse` may be called at any time."""

    def __init__(self, rank: int, size: int, sharding: Sharding = "full_shard") -> None:
        self._rank, self._size = rank, size
        self._sharding: Sharding = sharding
        self._pulse, self._lock = Pulse(), threading.Lock()
        self._world: TorchWorld | None = None
        self._policy: Policy | None = None
        self._reference: Policy | None = None

    def place(self) -> tuple[int, str]:
        """Return the number of this process, and the address by which Ray knows its machine."""
        return os.getpid(), address_here()

    def pulse(self) -> Pulse:
        """Return what was done so far."""
        with self._lock:
            return self._pulse

    def join(self, meeting: Path, device: str, seconds: float, together: bool) -> None:
        """Meet the others by the new file `meeting`; `device` is `policy.device`.

        `together` says whether all are on one machine: then they listen on loopback alone.
        """
        found = choose_device(device)
        at = LOOPBACK if together else address_here()
        self._world = join(meeting, rank=self._rank, size=self._size, device=found, seconds=seconds, address=at)
        self._device = found

    def train(self, job: Job) -> TrainReport:
        """Train a round, and write the policy that it makes unless the report says that it was stopped."""
        try:
            return self._train(job)
        except Exception as error:
            note_place(error)  # Ray carries its trace as text alone
            raise

    def _train(self, job: Job) -> TrainReport:
        assert self._world is not None, "join first"
        policy = self._load(job.policy, self._policy)
        if job.reference is not None:
            self._reference = self._load(job.reference, self._reference)
        self._note(0, None, "the policy is there")
        self._policy = None  # until it is in a state that is stored
        save = partial(save_sharded_policy, writes=self._rank == 0)
        report = train_job(
            job, policy, self._reference if job.reference else None, save, progress=self._note, world=self._world
        )
        if not report.stopped:
            self._world.gather([])  # from here on the folder is whole
            policy.metadata = PolicyFolder(job.target).metadata
            self._policy = policy
        return report

    def _load(self, folder: PolicyFolder, known: Policy | None) -> Policy:
        """Return a policy, the `known` one if that is it."""
        assert self._world is not None
        if known is not None and known.metadata.content_hash == folder.metadata.content_hash:
            return known
        policy = load_policy(folder, self._device)
        policy.shard(self._world.mesh, self._sharding)
        return policy

    def _note(
        self, done: float, total: float | None, what: str, *, tokens: int | None = None, loss: float | None = None
    ) -> None:
        """Take a report of the training (`rlft.progress.Progress`)."""
        del loss  # a round has none
        with self._lock:
            self._pulse = Pulse(self._pulse.beats + 1, done, total, what, tokens)
