"""The optimizer of a policy under training, and the learning rate as a function of how many updates it has seen."""

from __future__ import annotations

import dataclasses
import math

from rlft.config import TrainingConfig
from rlft.policy import Policy, PolicyFolder
from rlft.policy.folder import load_optimizer
from rlft.policy.optimizer import Optimizer


def prepare_optimizer(policy: Policy, settings: TrainingConfig, folder: PolicyFolder | None) -> None:
    """Give the policy an AdamW optimizer, with the state stored in `folder` if there is one.

    Without stored state the optimizer is new, and `metadata.update` counts from 0 again.
    """
    if policy.optimizer is None:
        policy.optimizer = Optimizer(
            policy.trainable(),
            betas=(settings.adam_beta1, settings.adam_beta2),
            weight_decay=settings.weight_decay,
        )
        if folder is not None:
            load_optimizer(policy, folder)
        if not policy.optimizer.state:
            policy.metadata = dataclasses.replace(policy.metadata, update=0)


def learning_rate(settings: TrainingConfig, update: int) -> float:
    """Return the learning rate of the update after `update` others: a linear warm-up, then as `lr_scheduler_type` says.

    It depends on nothing else, so a run that goes on from a stored policy goes on with its rate. The schedule ends
    after as many updates as all rounds can have; with rounds that have nothing to train on it does not reach its end.
    """
    warmup = settings.warmup_updates
    if update < warmup:
        return settings.learning_rate * ((update + 1) / warmup)
    updates = settings.rounds * settings.updates_per_round * settings.num_iterations
    progress = min(1.0, (update - warmup) / max(updates - warmup, 1))
    factors = {"constant": 1.0, "linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2}
    return settings.learning_rate * factors[settings.lr_scheduler_type]
