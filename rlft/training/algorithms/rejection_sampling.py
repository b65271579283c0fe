"""Rejection sampling, or expert iteration: a policy imitates the best of its own attempts, round after round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from rlft.training.algorithms import ADVANTAGES, RATIOS, Algorithm, PartLoss
from rlft.training.algorithms.sft import cross_entropy

if TYPE_CHECKING:
    from rlft.config.training import TrainingConfig
    from rlft.types import Reward, Rewards, Rollout, Rollouts

Form = Literal["full", "best"]


class RejectionSampling(Algorithm):
    """Rejection sampling imitates the solved attempts, or the best one at each task."""

    name: ClassVar[str] = "rejection_sampling"
    title: ClassVar[str] = "rejection sampling"
    paper: ClassVar[str] = "arXiv:2312.06585"
    unused: ClassVar[tuple[str, ...]] = ("beta", "loss_type", *ADVANTAGES, *RATIOS)

    imitates: Form = Field(
        default="full",
        description="Which attempts are imitated: every solved one (`full`: STaR, ReST-EM), or the one with the "
        "highest reward of each task (`best`: RAFT), unless all are equal and not solved.",
    )

    def choose(self, rollouts: Rollouts, rewards: Rewards, settings: TrainingConfig) -> Mapping[str, float]:
        """Return the attempts to imitate."""
        leaves_out = settings.mask_truncated_completions
        chosen = choose_attempts(rollouts, rewards, self.imitates, leaves_out_truncated=leaves_out)
        return {rollout.rollout_id: 0.0 for rollout in chosen}

    def loss(self, settings: TrainingConfig) -> PartLoss:
        """Return the mean cross-entropy over the imitated tokens."""
        del settings
        return cross_entropy


def choose_attempts(
    rollouts: Rollouts, rewards: Rewards, form: Form, *, leaves_out_truncated: bool = False
) -> list[Rollout]:
    """Return the attempts to imitate.

    `full` takes every attempt that is solved (STaR, arXiv:2203.14465; ReST-EM, arXiv:2312.06585), `best` the attempt of
    each task with the highest reward (RAFT, arXiv:2304.06767), the first of several, unless all are equal and not
    solved. Attempts without a score are left out, and with `leaves_out_truncated` those that a limit cut off.
    """
    from rlft.evaluation.statistics import varies

    groups: dict[str, list[tuple[Rollout, Reward, float]]] = {}
    for rollout, reward in zip(rollouts, rewards, strict=True):
        if reward.total is None or not rollout.loss_mask.any() or (leaves_out_truncated and rollout.truncated):
            continue
        groups.setdefault(rollout.task_id, []).append((rollout, reward, reward.total))
    if form == "full":
        return [rollout for group in groups.values() for rollout, reward, _ in group if reward.solved]
    best = [(group, max(group, key=lambda each: each[2])) for group in groups.values()]
    return [one[0] for group, one in best if one[1].solved or varies([total for *_, total in group])]
