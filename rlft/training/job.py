"""A round of training from a policy folder to the next, by one process or by each of several that train together.

`unused_report` is that of a round that was sampled ahead (`training.lag`) and on which nobody trains.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rlft.config import TrainingConfig
from rlft.evaluation.metrics import round_metrics
from rlft.models import Policy, PolicyFolder
from rlft.outcome import Fate
from rlft.progress import Progress, silent
from rlft.training.batching import ALONE, World
from rlft.training.ledger import failed_at
from rlft.training.trainer import Round, prepare_optimizer, train_round
from rlft.types import Rewards, Rollouts, TrainReport


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
    round: Round
    target: Path


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
    prepare_optimizer(policy, job.training, job.policy.load_optimizer)
    report = train_round(
        policy,
        job.rollouts,
        job.rewards,
        job.training,
        job.round,
        reference=reference,
        progress=progress,
        world=world,
    )
    if not report.stopped:
        save(policy, job.target, stage=job.training.algorithm, round=job.round.number + 1, parent=parent)
    return report


TRAINING_ENDED = Fate("filtered", "training_ended")


def unused_report(rollouts: Rollouts, rewards: Rewards, *, round: int, age: int) -> TrainReport:
    """Return a report without updates: those that failed are `errored`, all others `filtered:training_ended`.

    Its metrics are those of sampling and scoring, which have cost what they cost. Raises ValueError if the rewards
    belong to other rollouts.
    """
    metrics = round_metrics(rollouts, rewards)
    places = {
        rollout.rollout_id: failed_at(rollout, reward, rewards)
        for rollout, reward in zip(rollouts, rewards, strict=True)
    }
    fates = {key: TRAINING_ENDED if place is None else Fate("errored", place) for key, place in places.items()}
    clocks = {"perf/rollout_seconds": rollouts.seconds, "perf/score_seconds": rewards.seconds}
    return TrainReport(
        round=round,
        metrics=metrics | clocks,
        fates={key: str(fate) for key, fate in fates.items()},
        updates=0,
        seconds=0.0,
        age=age,
    )
