"""What ends a run before its last round: a budget, a plateau, or a baseline that shows that training cannot help."""

from __future__ import annotations

import math

from rlft.config import Config
from rlft.config.training import BudgetConfig
from rlft.estimation.rates import Rates
from rlft.estimation.span import Span, exactly
from rlft.estimation.stages import before_rounds, one_round
from rlft.estimation.work import Work


def rounds_within(budget: BudgetConfig, work: Work, rates: Rates, gpus: int) -> Span:
    """Return how many rounds are done before a budget is spent; at least one, and all without a budget."""
    before, each, tokens = before_rounds(work, rates), one_round(work, rates), rates.tokens.times(work.sampled)
    rounds = exactly(work.rounds)
    for bound, start, spent in (
        (_times(budget.minutes, 60), before, each),
        (_times(budget.gpu_hours, 3600), before.times(gpus), each.times(gpus)),
        (budget.tokens, Span(), tokens),
    ):
        if bound is not None:  # the dearest rounds fit least often
            rounds = Span(
                min(rounds.low, _fitting(bound - start.high, spent.high)),
                min(rounds.high, _fitting(bound - start.low, spent.low)),
            )
    return rounds


def endings(config: Config, rounds: Span) -> list[str]:
    """Return, in sentences, what may end a run early, which the times do not count on; a budget they count with."""
    said = []
    training, evaluation, baseline = config.training, config.evaluation, config.baseline
    bounds = {name: bound for name, bound in config.budget.model_dump().items() if bound is not None}
    if bounds:
        named = " and ".join(f"budget.{name} ({bound:,g})" for name, bound in bounds.items())
        said.append(
            f"{named} is counted with: it leaves time for {_whole(rounds)} of {training.rounds:,} rounds. What comes "
            "after the rounds is not in a budget."
        )
    if evaluation.patience:
        earliest = (2 * evaluation.patience - 1) * evaluation.validate_every
        if earliest < training.rounds:
            said.append(
                f"A plateau may end training from round {earliest:,} on (evaluation.patience: {evaluation.patience}); "
                "the times are those of all rounds."
            )
    said.append(
        "If the baseline shows that the tasks are too hard or solved "
        f"(baseline.already_solved: {baseline.already_solved:g}), the run ends before its first round."
    )
    return said


def _times(bound: float | None, factor: float) -> float | None:
    return None if bound is None else bound * factor


def _fitting(left: float, each: float) -> int:
    """Return how many rounds that take `each` fit into what is left; the first is always done."""
    return max(1, math.floor(left / each)) if each > 0 else 10**9


def _whole(span: Span) -> str:
    low, high = math.floor(span.low), math.floor(span.high)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
