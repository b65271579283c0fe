"""Keeps account of what training takes, and says when one more round would pass a budget."""

from __future__ import annotations

from dataclasses import dataclass

from rlft.config.training import BudgetConfig
from rlft.types import TrainReport

TOKENS = "completions/sampled_tokens"  # of a round's metrics
_ROUNDS = {1: "one more round", 2: "two more rounds"}


@dataclass
class Account:
    """What a run has spent so far, in wall `seconds` and sampled `tokens`, on a machine with so many `gpus`.

    `dearest_seconds` and `dearest_tokens` are the most that one of its rounds took, and `validation_seconds` the most
    that a validation did.
    """

    budget: BudgetConfig
    gpus: int = 0
    seconds: float = 0.0
    tokens: float = 0.0
    dearest_seconds: float = 0.0
    dearest_tokens: float = 0.0
    validation_seconds: float = 0.0

    def add_round(self, report: TrainReport, seconds: float, worked: float) -> None:
        """Count a round that has taken so many wall seconds now, without its validation.

        A round from the cache takes next to none; then those that its work took in the run that `worked` are counted,
        so that a run that is resumed ends where it would have ended.
        """
        seconds = max(seconds, worked)
        tokens = report.metrics.get(TOKENS, 0.0)
        self.seconds += seconds
        self.tokens += tokens
        self.dearest_seconds = max(self.dearest_seconds, seconds)
        self.dearest_tokens = max(self.dearest_tokens, tokens)

    def add_validation(self, seconds: float) -> None:
        """Count a validation that has taken so many wall seconds."""
        self.seconds += seconds
        self.validation_seconds = max(self.validation_seconds, seconds)

    def reason_to_end(self, more: int = 1, ahead: float = 0.0) -> str:
        """Return which bound so many `more` rounds would pass, in a sentence; empty if none, or without a bound.

        They come with the validation that has to follow the last one, whether or not it would be the last. `ahead` are
        the tokens of one more round that is sampled already: it takes no others.
        """
        hours, seconds = self.gpus / 3600, more * self.dearest_seconds + self.validation_seconds
        tokens = 0.0 if ahead else more * self.dearest_tokens
        for bound, spent, dearest, what in (
            (self.budget.minutes, self.seconds / 60, seconds / 60, "minutes"),
            (self.budget.gpu_hours, self.seconds * hours, seconds * hours, "GPU-hours"),
            (self.budget.tokens, self.tokens + ahead, tokens, "tokens"),
        ):
            if bound is not None and spent + dearest > bound:
                rest = f"and {_ROUNDS[more]} would take up to {dearest:,.4g}"
                if ahead and what == "tokens":
                    rest = f"{ahead:,.4g} of them on the round that was sampled ahead"
                return f"budget: {spent:,.4g} of {bound:,.4g} {what} are spent, {rest}"
        return ""
