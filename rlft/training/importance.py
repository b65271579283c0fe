"""Importance ratios: of the policy to itself before the update, and to what sampled: its engine, or another policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor

from rlft.config.loss import Correction, Level


def importance_ratio(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor, level: Level = "token") -> Tensor:
    """Return pi / pi_old, how much likelier the sampled tokens have become, with the gradient of `logprobs`.

    Args:
        logprobs: Float [rollouts, tokens], of the policy that is trained.
        old_logprobs: Float [rollouts, tokens], of the policy before the update; no gradient flows into it.
        mask: Bool [rollouts, tokens], true where the model sampled the token; nothing else is looked at.
        level: `token`: each token has its own ratio. `sequence`: a rollout has one, the geometric mean of the ratios
            of its tokens (GSPO, arXiv:2507.18071), so that it does not grow with the length.

    Returns:
        Float [rollouts, tokens] (1 outside the mask) or [rollouts, 1] (1 for a rollout without tokens).

    Raises ValueError for an unknown level.
    """
    log_ratio = (logprobs - old_logprobs.detach()).where(mask, 0.0)  # not `* mask`: inf * 0 is NaN
    if level == "sequence":
        log_ratio = log_ratio.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
    elif level != "token":
        raise ValueError(f"importance_sampling_level {level!r} is unknown; use one of {', '.join(get_args(Level))}")
    return log_ratio.exp()


@torch.no_grad()
def engine_correction(
    old_logprobs: Tensor,
    sampling_logprobs: Tensor,
    mask: Tensor,
    correction: Correction,
    *,
    minimum: float | None,
    maximum: float | None,
) -> Tensor:
    """Return the weight of the engine's samples in the loss: pi_old / pi_engine, kept within bounds.

    Engine and trainer have the same weights, but their kernels and precision give other log-probabilities, so the
    samples are a little off-policy. `truncate` caps the ratio (https://fengyao.notion.site/off-policy-rl); `mask` gives
    ratios out of bounds the weight 0 (IcePop, arXiv:2510.18855). At `sequence` level the ratio is the product over the
    tokens, the true weight of the rollout, unlike the geometric mean of `importance_ratio`.

    Args:
        old_logprobs: Float [rollouts, tokens], computed by the trainer before the update.
        sampling_logprobs: Float [rollouts, tokens], recorded by the engine. A NaN inside the mask stays one, so that
            the loss shows it; TRL takes it for a ratio of 1.
        mask: Bool [rollouts, tokens], true where the model sampled the token; nothing else is looked at.
        correction: `token_truncate`, `token_mask`, `sequence_truncate` or `sequence_mask`.
        minimum: Floor of the ratio; `None` for none.
        maximum: Cap of the ratio; `None` for none.

    Returns:
        Float [rollouts, tokens] or [rollouts, 1], at least 0, without gradient. A rollout without tokens has the
        ratio 1 before the bounds.

    Raises ValueError for an unknown correction, without any bounds, and for a minimum that is not below the maximum.
    """
    if correction not in get_args(Correction):
        known = ", ".join(get_args(Correction))
        raise ValueError(f"importance_sampling_correction {correction!r} is unknown; use one of {known}, or None")
    if minimum is None and maximum is None:
        raise ValueError(f"{correction} without bounds: give importance_sampling_max, importance_sampling_min or both")
    if minimum is not None and maximum is not None and minimum >= maximum:
        raise ValueError(f"importance_sampling_min={minimum:g} must be below importance_sampling_max={maximum:g}")
    level, how = correction.split("_")
    log_ratio = (old_logprobs - sampling_logprobs).where(mask, 0.0)
    if level == "sequence":
        log_ratio = log_ratio.sum(-1, keepdim=True)
    ratio = log_ratio.exp()
    bounded = ratio.clamp(minimum, maximum)
    return bounded if how == "truncate" else ratio.masked_fill((ratio < bounded) | (ratio > bounded), 0.0)


def effective_share(log_weights: Sequence[float]) -> float:
    """Return the effective sample size of weighted samples (Kish 1965) divided by their number, from 1/n to 1.

    It is (sum of w)^2 / (n * sum of w^2): 1 where all weights are equal, 1/n where a single sample has all of it. A
    common factor changes nothing, so that weights that are all next to 0 have 1, too: `mean_weight` shows these.
    `log_weights` are natural logarithms, those of rollouts the sums over their tokens. Raises ValueError without any.
    """
    if not log_weights:
        raise ValueError("no samples have no effective number")
    logs = torch.tensor(log_weights, dtype=torch.float64)
    weights = (logs - logs.max()).exp()  # a common factor changes nothing, and the largest is 1: nothing overflows
    return float(weights.sum() ** 2 / (len(logs) * (weights**2).sum()))


def mean_weight(log_weights: Sequence[float]) -> float:
    """Return the mean of weights of which these are natural logarithms, e^700 at most.

    The weights pi / mu of samples of mu have the expectation 1 under mu. A mean near 0 says that what pi does is hardly
    among them, however equal they are. Raises ValueError without any.
    """
    if not log_weights:
        raise ValueError("no samples have no mean weight")
    logs = torch.tensor(log_weights, dtype=torch.float64)
    return float((logs.logsumexp(0) - math.log(len(logs))).clamp(max=700.0).exp())
