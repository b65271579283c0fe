"""Asks all checks why a reward does not rise, the likeliest cause first."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rlft.evaluation.diagnosis import data, learning, unseen
from rlft.evaluation.diagnosis.history import Finding, History

Check = Callable[[History], Finding | None]

# In the order in which one cause brings about others: what is always the same text has the same reward, what is cut off
# is not solved, and a policy that has learnt its tasks by heart has little entropy.
CHECKS: tuple[Check, ...] = (
    data.errors,
    learning.engine_mismatch,
    learning.too_large_steps,
    learning.too_large_first_steps,
    learning.exploded_entropy,
    data.failing_tools,
    data.contradictions,
    data.duplicates,
    data.other_pay,
    unseen.memorising,
    unseen.constant_answer,
    unseen.fallen_back,
    learning.collapsed_entropy,
    unseen.worse_than_start,
    data.unpaid_part,
    data.truncation,
    data.unanswered,
    data.no_variance,
    learning.too_small_steps,
    learning.clipping,
    learning.length_drift,
    learning.standing_still,
    data.free_part,
)
# The checks that can find nothing in fewer rounds than these.
LEAST_ROUNDS: Mapping[Check, int] = {
    data.duplicates: 3,  # thirds of the rounds
    unseen.constant_answer: 3,
    learning.too_small_steps: 3,
    unseen.fallen_back: 2,  # three validations
    learning.exploded_entropy: 5,  # a trend
    data.other_pay: 5,
    unseen.memorising: 5,
    learning.collapsed_entropy: 5,
    learning.length_drift: 5,
    learning.standing_still: 2 * learning.LEAST - 1,
}
# What ends a rise: the others did no harm where validation or the test split shows one.
AFTER_A_RISE: tuple[Check, ...] = (
    unseen.memorising,
    unseen.constant_answer,
    unseen.fallen_back,
    learning.standing_still,
)


def diagnose(history: History) -> list[Finding]:
    """Return the causes that are found, the likeliest first.

    Of a run that has measurably risen, on validation or on the test split, these are only what ended its rise.
    """
    checks = AFTER_A_RISE if history.has_risen() else CHECKS
    return [finding for check in checks if history.rounds and (finding := check(history)) is not None]


def able_checks(rounds: int) -> int:
    """Return how many of the checks can find anything in so many rounds."""
    return sum(LEAST_ROUNDS.get(check, 1) <= rounds for check in CHECKS)
