"""The stages of a run with the time that each takes: work times rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


def together(stages: Sequence[Stage], lag: int) -> Span:
    """Return the wall seconds of all stages. With a `lag` those of the rounds are gone through side by side."""
    if not lag:
        return total(stage.seconds for stage in stages)
    sampling = total(stage.seconds for stage in stages if stage.name in (SAMPLING, SCORING))
    training = total(stage.seconds for stage in stages if stage.name == TRAINING)
    others = (stage.seconds for stage in stages if stage.name not in (SAMPLING, SCORING, TRAINING))
    return total([longer(sampling, training), *others])


def _counted(span: Span) -> str:
    low, high = round(span.low), round(span.high)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
