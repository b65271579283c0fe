"""Training on rollouts that another policy sampled: which these are, and the correction that they need."""

from __future__ import annotations

from typing import get_args

from rlft.config import TrainingConfig
from rlft.config.training import Correction
from rlft.types import Rollouts

CORRECTION: Correction = "sequence_truncate"
"""That of a retraining that names none: a rollout weighs how much likelier the policy is to sample it, up to a cap."""


def is_on_policy(rollouts: Rollouts, weights_hash: str) -> bool:
    """Return whether the policy with these weights sampled the rollouts."""
    return all(rollout.policy == weights_hash for rollout in rollouts)


def corrected(settings: TrainingConfig, correction: str | None) -> TrainingConfig:
    """Return the settings for rollouts of another policy: with this correction, unless they name one.

    The ratio is that of the policy's probability to the one recorded at sampling, kept within
    `importance_sampling_min` and `importance_sampling_max`; `None` means none. The loss's own ratio is then that of the
    policy to itself before the round, as in a round of its own (decoupled, arXiv:2110.00641). Raises ValueError for an
    unknown correction.
    """
    if correction is None or settings.importance_sampling_correction is not None:
        return settings
    if correction not in get_args(Correction):
        raise ValueError(f"{correction!r} is no correction; use one of {', '.join(get_args(Correction))}")
    return settings.model_copy(update={"importance_sampling_correction": correction})
