"""What a token adds to the objective of a policy, given its importance ratio and its advantage.

Shapes broadcast: `ratio` is float [rollouts, tokens] or, at sequence level, [rollouts, 1]; `advantages` too. Each
function returns the broadcast shape, to be maximised.
"""

from __future__ import annotations

import torch
from torch import Tensor


def clipped(ratio: Tensor, advantages: Tensor, epsilon: float, epsilon_high: float, delta: float | None) -> Tensor:
    """min(ratio * A, clip(ratio, 1 - epsilon, 1 + epsilon_high) * A) (PPO, arXiv:1707.06347, eq. 7).

    With a bad advantage the first term has no bound, however large the ratio; `delta` caps the ratio there: two-sided
    clipping (INTELLECT-2, arXiv:2505.07291). It must exceed 1 + epsilon_high to leave the other side alone.
    """
    inside = ratio.clamp(1 - epsilon, 1 + epsilon_high)
    free = ratio if delta is None else ratio.clamp(max=delta)
    return torch.minimum(free * advantages, inside * advantages)


def cispo(ratio: Tensor, advantages: Tensor, logprobs: Tensor, *, cap: float) -> Tensor:
    """min(ratio, cap) * A * log pi, the weight held fixed (CISPO, MiniMax-M1, arXiv:2506.13585).

    No token loses its gradient by clipping; it only weighs no more than `cap`. The value means little, as it holds a
    log-probability; the gradient by `logprobs` (float [rollouts, tokens]) is the capped ratio times A.
    """
    return ratio.detach().clamp(max=cap) * advantages * logprobs


def sapo(ratio: Tensor, advantages: Tensor, temperature_pos: float, temperature_neg: float) -> Tensor:
    """4 / t * sigmoid(t * (ratio - 1)) * A, a soft gate in place of a hard clip (SAPO, arXiv:2511.20347).

    The temperature t is `temperature_pos` where A > 0, else `temperature_neg`; the higher, the sooner a ratio away
    from 1 loses its gradient, which at ratio 1 is A for every t. Raises ValueError for a temperature not above 0.
    """
    if not (temperature_pos > 0 and temperature_neg > 0):
        raise ValueError(f"sapo temperatures must be above 0, not {temperature_pos:g} and {temperature_neg:g}")
    temperature = torch.full_like(advantages, temperature_neg).masked_fill(advantages > 0, temperature_pos)
    return 4 / temperature * torch.sigmoid(temperature * (ratio - 1)) * advantages
