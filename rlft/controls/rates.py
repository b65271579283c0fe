"""The learning rates that the trained controls try: those around a given one, or around one that is usual."""

from __future__ import annotations

from rlft.controls.best import Candidate
from rlft.policy import Policy

# Of the given learning rate. The middle one comes first, as of equally good ones the first is taken.
FACTORS = (1.0, 1 / 3, 3.0)
# Learning rates of AdamW without a warm start whose rate is known: of random weights, of an adapter, of a whole model.
SCRATCH_RATE, ADAPTER_RATE, FULL_RATE = 1e-3, 2e-4, 1e-5


def usual_rate(policy: Policy) -> float:
    """Return the learning rate that is usual for such a policy."""
    metadata = policy.metadata
    if metadata.base_model is None:
        return SCRATCH_RATE
    return ADAPTER_RATE if metadata.kind == "adapter" else FULL_RATE


def rate_after_trials(best: Candidate | None, middle: float) -> float:
    """Return the learning rate of the best trial; the lowest around `middle` if the numbers of all went wrong."""
    return best.learning_rate if best else middle * min(FACTORS)
