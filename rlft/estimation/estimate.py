"""The estimate of a run: its stages (work times rates), what they come to, what ends them early, what they cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rlft.config import Config
from rlft.config.training import BudgetConfig
from rlft.estimation.memory import Room, room_for
from rlft.estimation.rates import Rates
from rlft.estimation.span import Span, exactly, longer, total
from rlft.estimation.work import Work

SAMPLING, SCORING, TRAINING, EVALUATION = "sampling", "scoring", "training", "evaluation"


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a run: its name, the wall seconds that it takes, and what is done in it, in words."""

    name: str
    seconds: Span
    what: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run will take: wall seconds by stage and in all, tokens, memory, and what the numbers rest on.

    `sampled` are the tokens of all rounds, which `budget.tokens` bounds, `evaluated` those of evaluations. `gpus` is
    how many GPUs the run can see. `endings` say what would end it early, `basis` where the rates are from.
    """

    stages: Sequence[Stage]
    seconds: Span
    rounds: Span
    sampled: Span
    evaluated: Span
    room: Room
    gpus: int
    basis: Sequence[str]
    endings: Sequence[str]

    def cost(self, price_per_hour: float) -> Span:
        """Return what the hours of a machine cost at this price, in its currency."""
        return self.seconds.times(price_per_hour / 3600)

    def as_json(self, price_per_hour: float | None) -> dict[str, Any]:
        """Return it as JSON; every range is {low, high}, times are in seconds, memory is in bytes."""
        return {
            "seconds": asdict(self.seconds),
            "stages": {stage.name: {**asdict(stage.seconds), "what": stage.what} for stage in self.stages},
            "rounds": asdict(self.rounds),
            "tokens": {"rounds": asdict(self.sampled), "evaluations": asdict(self.evaluated)},
            "gpu_hours": asdict(self.seconds.times(self.gpus / 3600)),
            "memory": asdict(self.room),
            "cost": None if price_per_hour is None else asdict(self.cost(price_per_hour)),
            "basis": list(self.basis),
            "endings": list(self.endings),
        }


def estimate_run(config: Config, work: Work, rates: Rates, gpus: int, basis: Sequence[str], there: int) -> Estimate:
    """Return what a run of this config takes on a machine with so many GPUs, and `there` bytes of memory."""
    rounds = rounds_within(config.budget, work, rates, gpus)
    stages = stages_of(work, rates, rounds)
    return Estimate(
        stages=stages,
        seconds=_together(stages, work.lag),
        rounds=rounds,
        sampled=rates.tokens.times(rounds.times(work.sampled)).at_most(config.budget.tokens or math.inf),
        evaluated=rates.evaluated,
        room=room_for(config, rates.memory, there, on_gpu=rates.on_gpu),
        gpus=gpus,
        basis=basis,
        endings=endings(config, rounds),
    )


def before_rounds(work: Work, rates: Rates) -> Span:
    """Return the seconds from the start of a run to its first round, with the validation before that."""
    warm = rates.warm_start if work.warm_start else Span()
    return total([rates.setup, warm, rates.baseline, rates.validation, rates.between.times(10)])


def one_round(work: Work, rates: Rates) -> Span:
    """Return the seconds of one round, with its share of the validations that follow rounds."""
    sampling, training = (rates.sample + rates.score).times(work.sampled), rates.train.times(work.attempts)
    each = longer(sampling, training) if work.lag else sampling + training
    validating = rates.validation.times((work.validations - 1) / work.rounds)
    return total([each, validating, rates.between.times(work.per_round)])


def stages_of(work: Work, rates: Rates, rounds: Span) -> list[Stage]:
    """Return the stages of a run of so many `rounds`, in their order; a run that a budget ends has fewer."""
    sampled, share = rounds.times(work.sampled), rounds.times(1 / work.rounds)
    validations = exactly(1) + share.times(work.validations - 1)
    evaluated = [rates.baseline, rates.validation.times(validations), rates.arm.times(work.arms), rates.often]
    per_round = f"{_counted(rounds)} rounds of {_counted(work.sampled)} attempts"
    arms = f"{_counted(work.arms)} models at the end"
    return [
        Stage("setup", rates.setup, "reading tasks, the reward audit, making the model"),
        *([Stage("warm start", rates.warm_start, "imitating demonstrations")] if work.warm_start else []),
        Stage(SAMPLING, rates.sample.times(sampled), per_round),
        Stage(SCORING, rates.score.times(sampled), "of the same attempts"),
        Stage(TRAINING, rates.train.times(rounds.times(work.attempts)), "on those whose groups differ in reward"),
        Stage(EVALUATION, total(evaluated), f"baseline, {_counted(validations)} validations, {arms}"),
        *([Stage("controls", rates.controls.times(sampled), "at most the FLOPs of the rounds")] * work.controls),
        Stage("conclusion", rates.closing, "constant answers, contamination, decision, registration, report"),
        Stage("storing", rates.between.times(work.steps.times(share)), f"{_counted(work.steps)} steps of the pipeline"),
    ]


def _together(stages: Sequence[Stage], lag: int) -> Span:
    """Return the wall seconds of all stages. With a `lag` those of the rounds are gone through side by side."""
    if not lag:
        return total(stage.seconds for stage in stages)
    sampling = total(stage.seconds for stage in stages if stage.name in (SAMPLING, SCORING))
    training = total(stage.seconds for stage in stages if stage.name == TRAINING)
    others = (stage.seconds for stage in stages if stage.name not in (SAMPLING, SCORING, TRAINING))
    return total([longer(sampling, training), *others])


def rounds_within(budget: BudgetConfig, work: Work, rates: Rates, gpus: int) -> Span:
    """Return how many rounds are done before a budget is spent; at least one, and all without a budget."""
    before, each, tokens = before_rounds(work, rates), one_round(work, rates), rates.tokens.times(work.sampled)
    rounds = exactly(work.rounds)
    for bound, start, spent in (
        (None if budget.minutes is None else budget.minutes * 60, before, each),
        (None if budget.gpu_hours is None else budget.gpu_hours * 3600, before.times(gpus), each.times(gpus)),
        (budget.tokens, Span(), tokens),
    ):
        if bound is not None:  # the dearest rounds fit least often
            rounds = Span(
                min(rounds.low, _fitting(bound - start.high, spent.high)),
                min(rounds.high, _fitting(bound - start.low, spent.low)),
            )
    return rounds


def _fitting(left: float, each: float) -> int:
    """Return how many rounds that take `each` fit into what is left; the first is always done."""
    return max(1, math.floor(left / each)) if each > 0 else 10**9


def endings(config: Config, rounds: Span) -> list[str]:
    """Return, in sentences, what may end a run early, which the times do not count on; a budget they count with."""
    said = []
    training, evaluation = config.training, config.evaluation
    bounds = {name: bound for name, bound in config.budget.model_dump().items() if bound is not None}
    if bounds:
        named = " and ".join(f"budget.{name} ({bound:,g})" for name, bound in bounds.items())
        said.append(
            f"{named} is counted with: it leaves time for {_counted(rounds)} of {training.rounds:,} rounds. What comes "
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
        f"(baseline.already_solved: {config.baseline.already_solved:g}), the run ends before its first round."
    )
    return said


def _counted(span: Span) -> str:
    low, high = round(span.low), round(span.high)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
