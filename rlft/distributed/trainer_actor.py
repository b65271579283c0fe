"""A process that trains with others: it keeps its part of the policy from round to round."""

from __future__ import annotations

import platform
import threading
from functools import partial
from pathlib import Path

from rlft.config.distributed import Sharding
from rlft.contract.faults import note_place
from rlft.distributed.local_cluster import LOOPBACK, address_here
from rlft.distributed.place import Place
from rlft.distributed.pulse import Pulse
from rlft.distributed.torch_world import TorchWorld, join
from rlft.errors import DistributedError
from rlft.policy import Policy, PolicyFolder, load_policy
from rlft.policy.folder import save_sharded_policy
from rlft.policy.origin import choose_device
from rlft.training.job import Job, train_job
from rlft.types import TrainReport


class TrainerActor:
    """One of the processes. All are called with the same arguments; `pulse` may be called at any time."""

    def __init__(self, rank: int, size: int, sharding: Sharding = "full_shard") -> None:
        self._rank, self._size = rank, size
        self._sharding: Sharding = sharding
        self._pulse, self._lock = Pulse(), threading.Lock()
        self._world: TorchWorld | None = None
        self._policy: Policy | None = None
        self._reference: Policy | None = None

    def place(self) -> Place:
        """Return where this process is."""
        return Place.here()

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
        self._check_sees(job)
        policy, reference = self._known_or_loaded(job.policy), self._refer(job.reference)
        self._note(0, None, "the policy is there")
        self._policy = None  # until it is in a state that is stored
        save = partial(save_sharded_policy, writes=self._rank == 0)
        report = train_job(job, policy, reference, save, progress=self._note, world=self._world)
        if not report.stopped:
            self._world.gather([])  # from here on the folder is whole
            policy.metadata = PolicyFolder(job.target).metadata
            self._policy = policy
        return report

    def _check_sees(self, job: Job) -> None:
        for folder in (job.policy.path, job.target.parent, *([job.reference.path] if job.reference else [])):
            if not folder.is_dir():
                raise DistributedError(
                    f"the machine {platform.node()} does not see {folder}, which a trainer there needs",
                    where="distributed.address",
                    fix="keep policies (RLFT_HOME, and TMPDIR with a remote store) where all machines see them",
                )

    def _known_or_loaded(self, folder: PolicyFolder) -> Policy:
        known = self._policy
        return known if known and known.metadata.content_hash == folder.metadata.content_hash else self._load(folder)

    def _refer(self, folder: PolicyFolder | None) -> Policy | None:
        if folder is None:
            return None
        known = self._reference
        if known is None or known.metadata.content_hash != folder.metadata.content_hash:
            known = self._reference = self._load(folder)
        return known

    def _load(self, folder: PolicyFolder) -> Policy:
        assert self._world is not None
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
