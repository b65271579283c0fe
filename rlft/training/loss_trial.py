"""Tries a loss on a few tokens, so that one of the user's own that cannot work is found before anything is sampled."""

from __future__ import annotations

import torch

from rlft.contract.faults import described
from rlft.errors import ConfigError
from rlft.losses import Loss


def try_loss(loss: Loss) -> None:
    """Call `loss` as training will, on a few tokens, with a ratio per token and with a ratio per rollout.

    Advantages of both signs and ratios on both sides of 1 must give finite numbers, one for each token, with a
    gradient; otherwise it raises ConfigError, which says what is wrong.
    """
    advantages = torch.tensor([[1.0], [-1.0]])
    for columns in (3, 1):  # a ratio per token, and one per rollout
        logprobs = torch.tensor([[-0.5, -1.0, -2.0], [-0.5, -1.0, -2.0]], requires_grad=True)
        ratio = (logprobs - logprobs.detach() + torch.tensor([-0.5, 0.0, 0.5])).exp()[:, :columns]
        try:
            low, high = loss.bounds()
            objective = loss.objective(ratio, advantages, logprobs)
            shape = tuple(torch.broadcast_shapes(objective.shape, logprobs.shape))
            if not objective.requires_grad:
                raise _unusable(loss, "objective has no gradient; it must keep that of ratio or of logprobs")
            (gradient,) = torch.autograd.grad(objective.sum(), logprobs)
        except ConfigError:
            raise
        except Exception as error:
            raise _unusable(loss, f"objective or bounds failed on a few tokens: {described(error)}") from error
        if shape != tuple(logprobs.shape) or objective.ndim != 2:
            raise _unusable(loss, f"objective returned {list(objective.shape)} of [rollouts, tokens] = [2, 3]")
        if not (objective.isfinite().all() and gradient.isfinite().all() and low < high):
            raise _unusable(loss, "objective, its gradient or the bounds are no finite numbers in order")


def _unusable(loss: Loss, what: str) -> ConfigError:
    fix = "objective(ratio, advantages, logprobs) returns one number for each token; see rlft/losses/base.py"
    return ConfigError(f"{type(loss).__name__}: {what}", where="training.loss_type", fix=fix)
