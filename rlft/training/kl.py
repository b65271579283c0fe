"""The KL divergence of a policy from its reference, estimated on the tokens that were sampled."""

from __future__ import annotations

from torch import Tensor


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
