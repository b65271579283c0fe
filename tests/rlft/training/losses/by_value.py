"""The objective of one token and its gradient by the log-probability."""

import math

import torch


def evaluate(loss, ratio, advantage, old=0.0):
    """Value, and derivative by the log-probability: d ratio / d logprob = ratio."""
    logprob = torch.tensor(math.log(ratio) + old, dtype=torch.float64, requires_grad=True)
    value = loss.objective((logprob - old).exp(), torch.tensor(advantage, dtype=torch.float64), logprob)
    value.backward()
    return value.item(), logprob.grad.item()
