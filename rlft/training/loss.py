"""Computes the loss of a batch: a loss's objective per token, with the terms and the mean common to all losses.

The terms are importance ratios, of the policy to itself before the update and to what sampled (its engine, or another
policy), and the KL divergence of the policy from its reference, estimated on the tokens that were sampled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

import torch
from torch import Tensor

from rlft.config.training import Correction, Level, LossTerms, TrainingConfig
from rlft.training.losses import Loss
from rlft.types import Rollouts


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
    """
    log_ratio = (logprobs - old_logprobs.detach()).where(mask, 0.0)  # not `* mask`: inf * 0 is NaN
    if level == "sequence":
        log_ratio = log_ratio.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
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
    """
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
    `log_weights` are natural logarithms, those of rollouts the sums over their tokens; there is at least one.
    """
    logs = torch.tensor(log_weights, dtype=torch.float64)
    weights = (logs - logs.max()).exp()  # a common factor changes nothing, and the largest is 1: nothing overflows
    return float(weights.sum() ** 2 / (len(logs) * (weights**2).sum()))


def mean_weight(log_weights: Sequence[float]) -> float:
    """Return the mean of weights of which these are natural logarithms, e^700 at most.

    The weights pi / mu of samples of mu have the expectation 1 under mu. A mean near 0 says that what pi does is hardly
    among them, however equal they are. There is at least one.
    """
    logs = torch.tensor(log_weights, dtype=torch.float64)
    return float((logs.logsumexp(0) - math.log(len(logs))).clamp(max=700.0).exp())


def k3(logprobs: Tensor, ref_logprobs: Tensor, mask: Tensor, ratio: Tensor | None = None) -> Tensor:
    """Estimate KL(policy || reference) per token by Schulman's k3, ref/pi - ln(ref/pi) - 1, which is never negative.

    The estimate is unbiased (http://joschu.net/blog/kl-approx.html), its gradient is not: the samples are held fixed
    while the policy moves. Multiplied by the importance ratio, value and gradient are those of the reverse KL, also
    for samples of an older policy (DeepSeek-V3.2, arXiv:2512.02556).

    Args:
        logprobs: Float [rollouts, tokens], of the policy that is trained.
        ref_logprobs: Float [rollouts, tokens], of the reference; no gradient flows into it.
        mask: Bool [rollouts, tokens], true where the model sampled the token; nothing else is looked at.
        ratio: Float [rollouts, tokens] or [rollouts, 1], the importance ratio with its gradient; `None` leaves the
            estimate unweighted. The gradient is unbiased with the ratios of tokens only.

    Returns:
        Float [rollouts, tokens], 0 outside the mask.
    """
    distance = (ref_logprobs.detach() - logprobs).where(mask, 0.0)  # not `* mask`: inf * 0 is NaN
    estimate = distance.exp() - distance - 1
    return estimate if ratio is None else estimate * ratio


@dataclass(frozen=True, slots=True)
class Part:
    """Holds the tensors of a batch, or of a part of it. Raises ValueError for shapes that do not fit together.

    Attributes:
        logprobs: Float [rollouts, tokens], of the policy that is trained.
        old_logprobs: Float [rollouts, tokens], of the policy before the update; for the first update after sampling
            `logprobs.detach()` is right.
        advantages: Float [rollouts], or [rollouts, tokens] for one advantage per token.
        mask: [rollouts, tokens], 1 where the model sampled the token.
        ref_logprobs: Float [rollouts, tokens] of the reference; needed for a KL.
        sampling_logprobs: Float [rollouts, tokens], recorded by the engine that sampled; needed to correct for it.
    """

    logprobs: Tensor
    old_logprobs: Tensor
    advantages: Tensor
    mask: Tensor
    ref_logprobs: Tensor | None = None
    sampling_logprobs: Tensor | None = None

    def __post_init__(self) -> None:
        shape = tuple(self.logprobs.shape)
        if len(shape) != 2:
            raise ValueError(f"logprobs must be [rollouts, tokens], not {list(shape)}")
        for name in ("mask", "old_logprobs", "ref_logprobs", "sampling_logprobs"):
            tensor = getattr(self, name)
            if tensor is not None and tuple(tensor.shape) != shape:
                raise ValueError(f"{name} {list(tensor.shape)} must have the shape of logprobs, {list(shape)}")
        if tuple(self.advantages.shape) not in (shape, shape[:1]):
            raise ValueError(
                f"advantages {list(self.advantages.shape)} must be one per rollout, [{shape[0]}], or per token, "
                f"{list(shape)}"
            )


@dataclass(frozen=True, slots=True)
class Whole:
    """Holds the sizes of the whole batch, which the loss of a part is divided by.

    Attributes:
        num_items: Sampled tokens of the whole batch; `None` means those in the part's mask.
        num_rollouts: Rollouts of the whole batch; `None` means those of the part.
        max_completion_length: Tokens; needed by losses whose divisor is `length`.
    """

    num_items: float | None = None
    num_rollouts: float | None = None
    max_completion_length: int | None = None


@dataclass(frozen=True, slots=True)
class LossReport:
    """Holds the loss of a part and counts for the metrics, as sums: those of the parts add up to those of the batch.

    Attributes:
        loss: Scalar with gradient.
        tokens: Tokens in the mask.
        ratios: Importance ratios that could be clipped: the tokens, or at sequence level the rollouts that have a
            token (the tokens again when each has an advantage of its own).
        clipped_low: Of these, how many are below the loss's lower bound while the advantage is below 0.
        clipped_high: How many are above its upper bound while the advantage is above 0.
        kl: Sum over tokens of the k3 estimate, importance-weighted if the penalty was; 0 without `beta`.
        importance_sampling_ratio: Float [tokens], or [rollouts that have a token] at sequence level: the weights
            between engine and trainer, after truncation or masking; without gradient. `None` without correction.
        sums: Sums over `units`, such as pairs, of what an algorithm reports, by metric name.
    """

    loss: Tensor
    tokens: float
    ratios: float = 0.0
    clipped_low: float = 0.0
    clipped_high: float = 0.0
    kl: float = 0.0
    importance_sampling_ratio: Tensor | None = None
    units: float = 0.0
    sums: Mapping[str, float] = field(default_factory=dict)


def policy_loss(part: Part, whole: Whole, loss: Loss, terms: LossTerms) -> LossReport:
    """Return the sum over tokens of -(objective * engine correction) + beta * KL, divided by the loss's divisor.

    Values outside the mask, infinite or NaN ones included, change neither the loss nor a gradient; gradients flow into
    `part.logprobs` only. A rollout without tokens adds 0, and still counts where the mean is over rollouts; without any
    token the loss is 0, with a gradient of zeros. The losses of the parts of a batch add up to the loss of the batch.

    Raises ValueError for log-probabilities or lengths that are needed and missing.
    """
    keep = part.mask.bool()
    divisor = _divisor(loss, keep, whole)
    advantages = _per_token(part.advantages, keep)
    ratio = importance_ratio(part.logprobs, part.old_logprobs, keep, terms.importance_sampling_level)
    objective = loss.objective(ratio, advantages, part.logprobs)
    correction = _correction(part, keep, terms)
    if correction is not None:
        objective = objective * correction
    kl = _kl(part, keep, ratio, terms)
    low, high = loss.bounds()
    low, high = (ratio < low) & (advantages < 0), (ratio > high) & (advantages > 0)
    counts = [keep.sum(), _counted(low, keep).sum(), low.sum(), high.sum(), kl.detach().sum()]
    # All at once, since every transfer of a number from a GPU waits for it.
    tokens, ratios, clipped_low, clipped_high, kl_sum = torch.stack([count.double() for count in counts]).tolist()
    return LossReport(
        loss=((terms.beta * kl - objective).where(keep, 0.0) / divisor).sum(),
        tokens=tokens,
        ratios=ratios,
        clipped_low=clipped_low,
        clipped_high=clipped_high,
        kl=kl_sum,
        importance_sampling_ratio=None if correction is None else correction[_counted(correction, keep)],
    )


def _divisor(loss: Loss, keep: Tensor, whole: Whole) -> Tensor | float:
    """Return what a token's loss is divided by: one number, or [rollouts, 1] where each rollout has its own mean."""
    rows, tokens = len(keep), int(keep.sum())
    rows, tokens = max(whole.num_rollouts or rows, 1), max(whole.num_items or tokens, 1)
    if loss.divisor == "rollouts":
        return rows * keep.sum(-1, keepdim=True).clamp(min=1)
    if loss.divisor == "length":
        if not whole.max_completion_length:
            raise ValueError(f"{type(loss).__name__} needs max_completion_length, which its sum is divided by")
        return float(rows * whole.max_completion_length)
    return tokens


def _correction(part: Part, keep: Tensor, terms: LossTerms) -> Tensor | None:
    if terms.importance_sampling_correction is None:
        return None
    if part.sampling_logprobs is None:
        raise ValueError("importance_sampling_correction needs sampling_logprobs, those the engine recorded")
    return engine_correction(
        part.old_logprobs,
        part.sampling_logprobs,
        keep,
        terms.importance_sampling_correction,
        minimum=terms.importance_sampling_min,
        maximum=terms.importance_sampling_max,
    )


def _kl(part: Part, keep: Tensor, ratio: Tensor, terms: LossTerms) -> Tensor:
    if not terms.beta:
        return torch.zeros_like(part.logprobs)
    if part.ref_logprobs is None:
        raise ValueError("beta is not 0: ref_logprobs is needed; take those of the policy before training")
    return k3(part.logprobs, part.ref_logprobs, keep, ratio if terms.kl_importance_weighted else None)


def _per_token(advantages: Tensor, keep: Tensor) -> Tensor:
    """Return advantages as [rollouts, 1] or [rollouts, tokens], without gradient, 0 outside the mask."""
    if advantages.ndim == 1:
        advantages = advantages[:, None]
    return advantages.detach().where(_counted(advantages, keep), 0.0)


def _counted(values: Tensor, keep: Tensor) -> Tensor:
    """Return which of the `values` count: for values per token those in the mask, per rollout those with a token."""
    return keep if values.shape == keep.shape else keep.any(-1, keepdim=True)


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
