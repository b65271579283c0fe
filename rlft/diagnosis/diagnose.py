"""Asks all checks why a reward does not rise, the likeliest cause first."""

from __future__ import annotations

from collections.abc import Callable

from rlft.diagnosis import data, learning
from rlft.diagnosis.finding import Finding
from rlft.diagnosis.history import History

# In the order in which one cause brings about others: what is always the same text has the same reward, what is cut off
# is not solved, and a policy that has learnt its tasks by heart has little entropy.
CHECKS: tuple[Callable[[History], Finding | None], ...] = (
    data.errors,
    learning.engine_mismatch,
    learning.too_large_steps,
    learning.exploded_entropy,
    data.failing_tools,
    data.duplicates,
    data.other_pay,
    learning.memorising,
    learning.collapsed_entropy,
    data.unpaid_part,
    data.truncation,
    data.no_variance,
    learning.too_small_steps,
    learning.clipping,
    learning.length_drift,
    data.free_part,
)


def diagnose(history: History) -> list[Finding]:
    """Return the causes that are found, the likeliest first; none of a run whose validation has measurably risen."""
    if not history.rounds or history.has_risen():
        return []
    return [finding for check in CHECKS if (finding := check(history)) is not None]
