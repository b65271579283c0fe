"""The policy loss with its settings by name, as a config has them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from rlft.config.training import LossTerms
from rlft.training.loss import LossReport, Part, Whole, policy_loss
from rlft.training.losses import LOSSES

SETTINGS = {name for loss in LOSSES.values() for name in loss.model_fields}


def loss_with(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, mask: Tensor, **options: Any) -> LossReport:
    """`policy_loss` of these settings, those of other losses left out."""
    kind = LOSSES[options.pop("loss_type", "dapo")]
    own = {name: options.pop(name) for name in SETTINGS & options.keys()}
    given = {name: value for name, value in own.items() if name in kind.model_fields}
    sizes = {name: options.pop(name) for name in Whole.__slots__ if name in options}
    tensors = {name: options.pop(name) for name in ("ref_logprobs", "sampling_logprobs") if name in options}
    loss = kind(**(kind.example | given))
    part = Part(logprobs, old_logprobs, advantages, mask, **tensors)
    return policy_loss(part, Whole(**sizes), loss, LossTerms(**options))
