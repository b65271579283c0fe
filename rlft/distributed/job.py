"""What the workers are given for a round, and what each says of itself while it trains."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rlft.config import TrainingConfig
from rlft.policy import PolicyFolder
from rlft.types import Rewards, Rollouts


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


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a worker has done so far: its `beats` rise with everything that it does.

    `done` of `total` are done of `what`, as `rlft.progress.Progress` takes them; the total is that of all workers.
    """

    beats: int = 0
    done: float = 0.0
    total: float | None = None
    what: str = ""
    tokens: int | None = None
