"""The estimate of a run: its stages, what they come to, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rlft.config import Config
from rlft.estimation.endings import endings, rounds_within
from rlft.estimation.rates import Rates
from rlft.estimation.room import Room, room_for
from rlft.estimation.span import Span
from rlft.estimation.stages import Stage, stages_of, together
from rlft.estimation.trainers import held_with_trainers, trainer_memory
from rlft.estimation.work import Work


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run will take: wall seconds by stage and in all, tokens, memory, and what the numbers rest on.

    `sampled` are the tokens of all rounds, which `budget.tokens` bounds, `evaluated` those of evaluations. `gpus` is
    how many GPUs the run can see. `endings` say what would end it early, `basis` where the rates are from. `trainer` is
    the memory of each of several trainers, in bytes.
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
    trainer: Span | None = None

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
            "trainer_memory": None if self.trainer is None else asdict(self.trainer),
            "cost": None if price_per_hour is None else asdict(self.cost(price_per_hour)),
            "basis": list(self.basis),
            "endings": list(self.endings),
        }


def estimate_run(config: Config, work: Work, rates: Rates, gpus: int, basis: Sequence[str], there: int) -> Estimate:
    """Return what a run of this config takes on a machine with so many GPUs, and `there` bytes of memory."""
    rounds = rounds_within(config.budget, work, rates, gpus)
    stages = stages_of(work, rates, rounds)
    held = held_with_trainers(rates.memory, config.distributed, on_gpu=rates.on_gpu)
    return Estimate(
        stages=stages,
        seconds=together(stages, work.lag),
        rounds=rounds,
        sampled=_capped(rates.tokens.times(rounds.times(work.sampled)), config.budget.tokens),
        evaluated=rates.evaluated,
        room=room_for(config, held, there, on_gpu=rates.on_gpu),
        trainer=trainer_memory(rates.memory, config.distributed),
        gpus=gpus,
        basis=basis,
        endings=endings(config, rounds),
    )


def _capped(span: Span, bound: float | None) -> Span:
    return span if bound is None else span.at_most(bound)
