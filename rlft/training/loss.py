"""The GRPO family of policy losses, as a pure function of log-probabilities, advantages and masks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from rlft.training.importance import Correction, Level, engine_correction, importance_ratio
from rlft.training.kl import k3
from rlft.training.surrogate import cispo, clipped, sapo

LossType = Literal["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo"]


@dataclass(frozen=True, slots=True)
class LossReport:
    """The loss and what it saw, as sums: the reports of the parts of a batch add up to that of the batch.

    Attributes:
        loss: Scalar with gradient.
        tokens: Tokens in the mask.
        ratios: Importance ratios that could be clipped: the tokens, or at sequence level the rollouts that have a
            token (the tokens again when each has an advantage of its own).
        clipped_low: Of these, how many are below 1 - epsilon while the advantage is below 0; none for `cispo`.
        clipped_high: How many are above 1 + epsilon_high, or above the cap of `cispo`, while the advantage is above
            0. `sapo` has no bounds and clips none.
        kl: Sum over tokens of the k3 estimate, importance-weighted if the penalty was; 0 without `beta`.
        importance_sampling_ratio: Float [tokens], or [rollouts that have a token] at sequence level: the weights
            between engine and trainer, after truncation or masking; without gradient. `None` without correction.
    """

    loss: Tensor
    tokens: float
    ratios: float
    clipped_low: float
    clipped_high: float
    kl: float
    importance_sampling_ratio: Tensor | None


def policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    loss_type: LossType = "dapo",
    epsilon: float = 0.2,
    epsilon_high: float | None = None,
    delta: float | None = None,
    importance_sampling_level: Level = "token",
    beta: float = 0.0,
    ref_logprobs: Tensor | None = None,
    kl_importance_weighted: bool = False,
    sampling_logprobs: Tensor | None = None,
    importance_sampling_correction: Correction | None = None,
    importance_sampling_min: float | None = None,
    importance_sampling_max: float | None = 3.0,
    sapo_temperature_pos: float = 1.0,
    sapo_temperature_neg: float = 1.05,
    max_completion_length: int | None = None,
    num_items: float | None = None,
    num_rollouts: float | None = None,
) -> LossReport:
    """-(objective * engine correction) + beta * KL per token, brought together in the way of the loss type.

    What stands outside the mask, infinite or NaN, changes neither the loss nor a gradient; gradients flow into
    `logprobs` only.

    Args:
        logprobs: Float [rollouts, tokens], of the policy that is trained.
        old_logprobs: Float [rollouts, tokens], of the policy before the update; `logprobs.detach()` will do for the
            first update after sampling.
        advantages: Float [rollouts], or [rollouts, tokens] for one advantage per token.
        mask: [rollouts, tokens], 1 where the model sampled the token. A rollout without tokens adds 0, and still
            counts where the mean is over rollouts; without any token the loss is 0, with a gradient of zeros.
        loss_type: `grpo` (arXiv:2402.03300) and `sapo` (arXiv:2511.20347): mean over rollouts of the mean over their
            tokens. `bnpo`, `dapo` (arXiv:2503.14476) and `cispo` (arXiv:2506.13585): sum over tokens divided by
            `num_items`. `dr_grpo` (arXiv:2503.20783): sum divided by rollouts times `max_completion_length`. `bnpo`
            is `dapo` here: TRL divides it by the tokens of each micro-batch, so that its gradient depends on how the
            batch was cut.
        epsilon: How far a ratio may fall below 1 before it is clipped; 0.2 for tokens, some 3e-4 for sequences.
        epsilon_high: How far it may rise above 1; `None` means `epsilon`. For `cispo` the cap of the ratio itself, so
            that `None` is hardly meant: 5 is usual (ScaleRL, arXiv:2510.13786).
        delta: Cap of the ratio where the advantage is bad, above 1 + epsilon_high; `cispo` and `sapo` ignore it.
        importance_sampling_level: `token`, or `sequence` for GSPO (arXiv:2507.18071; with `loss_type="grpo"`: the
            losses that sum over tokens would weigh a rollout by its length).
        beta: Weight of the KL to the reference.
        ref_logprobs: Float [rollouts, tokens] of the reference; needed when `beta` is not 0.
        kl_importance_weighted: Multiply the KL by the ratio (arXiv:2512.02556); see `rlft.training.kl.k3`.
        sampling_logprobs: Float [rollouts, tokens], recorded by the engine that sampled; needed by the correction.
        importance_sampling_correction: How the mismatch of engine and trainer is weighed; see `engine_correction`.
        importance_sampling_min: Floor of its ratio; `None` for none.
        importance_sampling_max: Cap of its ratio; `None` for none.
        sapo_temperature_pos: Above 0; of good advantages.
        sapo_temperature_neg: Above 0; of the others.
        max_completion_length: Tokens; needed by `dr_grpo`.
        num_items: Tokens of the whole batch when this is only a part of it; `None` means the tokens of `mask`.
        num_rollouts: Rollouts of the whole batch when this is only a part; `None` means the rows given.

    Returns:
        LossReport; the losses of the parts of a batch add up to the loss of the batch, for every loss type.
        Raises ValueError for unknown names, shapes that do not fit, and arguments that are missing.
    """
    _check_shapes(logprobs, advantages, mask, old=old_logprobs, ref=ref_logprobs, sampling=sampling_logprobs)
    keep = mask.bool()
    divisor = _divisor(loss_type, keep, max_completion_length, num_items, num_rollouts)
    advantages = _per_token(advantages, keep)
    ratio = importance_ratio(logprobs, old_logprobs, keep, importance_sampling_level)
    high = epsilon if epsilon_high is None else epsilon_high
    if loss_type == "cispo":
        objective, bounds = cispo(ratio, advantages, logprobs, cap=high), (0.0, high)
    elif loss_type == "sapo":
        objective, bounds = sapo(ratio, advantages, sapo_temperature_pos, sapo_temperature_neg), (0.0, math.inf)
    else:
        objective, bounds = clipped(ratio, advantages, epsilon, high, delta), (1 - epsilon, 1 + high)
    correction, kl = None, torch.zeros_like(logprobs)
    if importance_sampling_correction is not None:
        if sampling_logprobs is None:
            raise ValueError("importance_sampling_correction needs sampling_logprobs, those the engine recorded")
        correction = engine_correction(
            old_logprobs,
            sampling_logprobs,
            keep,
            importance_sampling_correction,
            minimum=importance_sampling_min,
            maximum=importance_sampling_max,
        )
        objective = objective * correction
    if beta:
        if ref_logprobs is None:
            raise ValueError("beta is not 0: ref_logprobs is needed; take those of the policy before training")
        kl = k3(logprobs, ref_logprobs, keep, ratio if kl_importance_weighted else None)
    per_token = (beta * kl - objective).where(keep, 0.0)
    low, up = (ratio < bounds[0]) & (advantages < 0), (ratio > bounds[1]) & (advantages > 0)
    counts = [keep.sum(), _counted(low, keep).sum(), low.sum(), up.sum(), kl.detach().sum()]
    tokens, ratios, clipped_low, clipped_high, kl_sum = torch.stack([count.double() for count in counts]).tolist()
    return LossReport(
        loss=(per_token / divisor).sum(),
        tokens=tokens,
        ratios=ratios,
        clipped_low=clipped_low,
        clipped_high=clipped_high,
        kl=kl_sum,
        importance_sampling_ratio=None if correction is None else correction[_counted(correction, keep)],
    )


def _check_shapes(logprobs: Tensor, advantages: Tensor, mask: Tensor, **others: Tensor | None) -> None:
    shape = tuple(logprobs.shape)
    if len(shape) != 2:
        raise ValueError(f"logprobs must be [rollouts, tokens], not {list(shape)}")
    for name, tensor in ({"mask": mask} | {f"{name}_logprobs": tensor for name, tensor in others.items()}).items():
        if tensor is not None and tuple(tensor.shape) != shape:
            raise ValueError(f"{name} {list(tensor.shape)} must have the shape of logprobs, {list(shape)}")
    if tuple(advantages.shape) not in (shape, shape[:1]):
        raise ValueError(
            f"advantages {list(advantages.shape)} must be one per rollout, [{shape[0]}], or per token, {list(shape)}"
        )


def _divisor(
    loss_type: LossType,
    keep: Tensor,
    max_completion_length: int | None,
    num_items: float | None,
    num_rollouts: float | None,
) -> Tensor | float:
    """What a token's loss is divided by: one number, or [rollouts, 1] where each rollout has a mean of its own."""
    if loss_type not in get_args(LossType):
        raise ValueError(f"loss_type {loss_type!r} is unknown; use one of {', '.join(get_args(LossType))}")
    rows, tokens = len(keep), int(keep.sum())
    if num_items is not None and num_items < tokens:
        raise ValueError(f"num_items={num_items:g} is the whole batch and cannot be less than this part's {tokens}")
    if num_rollouts is not None and num_rollouts < rows:
        raise ValueError(f"num_rollouts={num_rollouts:g} is the whole batch and cannot be less than this part's {rows}")
    rows, tokens = max(num_rollouts or rows, 1), max(num_items or tokens, 1)
    if loss_type in ("grpo", "sapo"):
        return rows * keep.sum(-1, keepdim=True).clamp(min=1)
    if loss_type == "dr_grpo":
        if not max_completion_length:
            raise ValueError("dr_grpo needs max_completion_length, which its sum is divided by")
        return float(rows * max_completion_length)
    return tokens


def _per_token(advantages: Tensor, keep: Tensor) -> Tensor:
    """Advantages as [rollouts, 1] or [rollouts, tokens], without gradient, 0 where the mask has nothing."""
    if advantages.ndim == 1:
        advantages = advantages[:, None]
    return advantages.detach().where(_counted(advantages, keep), 0.0)


def _counted(values: Tensor, keep: Tensor) -> Tensor:
    """The mask of values per token, or of values per rollout: those with a token."""
    return keep if values.shape == keep.shape else keep.any(-1, keepdim=True)
