"""A round of training from a policy folder to the next, by one process or by each of several that train together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rlft.config import Section, TrainingConfig
from rlft.models import Policy, PolicyFolder
from rlft.progress import Progress, silent
from rlft.training.trainer import prepare_optimizer, train_round
from rlft.training.world import ALONE, World
from rlft.types import Rewards, Rollouts, TrainReport


class Round(Section):
    """Says which round a policy is trained on, and how its attempts were sampled.

    `age` is how many rounds of training the policy that sampled them was behind the one that is trained.
    """

    number: int
    temperature: float
    max_completion_length: int
    age: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A round to train: the policy that it begins with, and the new folder `target` for the one that it makes.

    `reference` is needed with `beta` above 0 where the policy with its adapter off is not the reference; otherwise it
    is `None`. The others are the arguments of `rlft.training.trainer.train_round`.
    """

    policy: PolicyFolder
    reference: PolicyFolder | None
    rollouts: Rollouts
    rewards: Rewards
    training: TrainingConfig
    round: int
    temperature: float
    max_completion_length: int
    target: Path
    age: int = 0


class Save(Protocol):
    """Writes a policy to a new folder (`rlft.models.folder`)."""

    def __call__(self, policy: Policy, folder: Path, /, **changes: Any) -> object:
        """Write it; `changes` are entries of its metadata."""
        ...


def train_job(
    job: Job, policy: Policy, reference: Policy | None, save: Save, *, progress: Progress = silent, world: World = ALONE
) -> TrainReport:
    """Train `policy`, which has the content of `job.policy`, and save it to `job.target` unless the round is stopped.

    Then the report says so, and the policy may have changed: it must be loaded again. Raises as `train_round` does.
    """
    parent = policy.metadata.content_hash
    prepare_optimizer(policy, job.training, job.policy)
    report = train_round(
        policy,
        job.rollouts,
        job.rewards,
        job.training,
        round=job.round,
        temperature=job.temperature,
        max_completion_length=job.max_completion_length,
        reference=reference,
        progress=progress,
        world=world,
        age=job.age,
    )
    if not report.stopped:
        save(policy, job.target, stage=job.training.algorithm, round=job.round + 1, parent=parent)
    return report
