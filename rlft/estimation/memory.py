"""What memory a run has held, whether there is enough of it, and which settings to lower, and to what, if not."""

from __future__ import annotations

import resource
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from rlft.config import Config
from rlft.errors import MemoryShortError, Shortage
from rlft.estimation.span import Span

# What a stage needs much memory for: weights, rollouts side by side, updates of the rounds, supervised training.
Use = Literal["model", "sampling", "updates", "supervised"]
Verdict = Literal["fits", "may_not_fit", "does_not_fit"]

_CPU_TOKENS, _GPU_TOKENS = 3072, 16384  # what `training.per_step_token_budget: null` means at least
_SHOWN = 200  # characters of torch's text


@dataclass(frozen=True, slots=True)
class Peak:
    """Bytes that the process has held at most, and those of the GPU that torch used most; `None` without a GPU."""

    process: int
    gpu: int | None


def peak_memory() -> Peak:
    """Return the peak of this process, without those that it has started. Imports torch."""
    import torch

    unit = 1 if sys.platform == "darwin" else 1024
    gpus = [torch.cuda.max_memory_allocated(number) for number in range(torch.cuda.device_count())]
    return Peak(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, max(gpus) if gpus else None)


@dataclass(frozen=True, slots=True)
class Room:
    """Whether the `needed` bytes are `there`, of the machine or, if `on_gpu`, of the GPU.

    `lower` are the settings to change, as `name=value`, where it does not fit or may not.
    """

    verdict: Verdict
    needed: Span
    there: int
    on_gpu: bool
    lower: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """What is said of it to a person."""
        low, high, there = (f"{count / 2**30:.3g} GiB" for count in (self.needed.low, self.needed.high, self.there))
        way = f". Change {', '.join(self.lower)}" if self.lower else ""
        whose = "the GPU" if self.on_gpu else "this machine"
        return f"It takes {low} to {high} of the {there} that {whose} has: it {self.verdict.replace('_', ' ')}{way}."


def room_for(config: Config, needed: Span, there: int, *, on_gpu: bool) -> Room:
    """Return whether so many bytes are `there`, with the settings of which `lower_settings` says that they help."""
    if needed.high <= there:
        return Room("fits", needed, there, on_gpu)
    lower = lower_settings(("model", "sampling", "updates"), config, on_gpu=on_gpu)
    named = tuple(f"{name}={value}" for name, value, _ in lower)
    return Room("may_not_fit" if needed.low <= there else "does_not_fit", needed, there, on_gpu, named)


def memory_error(stage: str, uses: Collection[Use], config: Config, kind: Shortage, said: str) -> MemoryShortError:
    """Return the error of a stage whose memory ran out.

    `stage` is the name that it is shown under, `uses` are what it needs memory for, `said` is torch's text.
    """
    settings = lower_settings(uses, config, on_gpu=kind == "gpu")
    whose = "the GPU" if kind == "gpu" else "this machine"
    lowered = " ".join(f"--set {name}={value}" for name, value, _ in settings)
    now = ", ".join(f"{name} is {was}" for name, _, was in settings)
    again = f"run it again with {lowered} ({now}), which takes from the cache what these do not change; or "
    words = said.partition("\n")[0][:_SHOWN]
    return MemoryShortError(
        f"{whose} has too little memory{': ' if words else ''}{words}",
        where=stage,
        fix=f"{again if settings else ''}free memory, then `rlft resume` goes on with the run",
    )


def lower_settings(uses: Collection[Use], config: Config, *, on_gpu: bool) -> list[tuple[str, object, object]]:
    """Return (name, lower value, value now) of the settings that decide how much memory a stage needs."""
    numbers: list[tuple[str, int, int]] = []
    trains = bool({"updates", "supervised"} & set(uses))
    if trains:
        budget = config.training.per_step_token_budget or (_GPU_TOKENS if on_gpu else _CPU_TOKENS)
        numbers.append(("training.per_step_token_budget", budget // 2, budget))
    if "sampling" in uses:
        attempts = config.training.tasks_per_round * config.training.num_generations
        numbers.append(_half("rollout.batch_size", min(config.rollout.batch_size, attempts)))
    if {"updates", "sampling"} & set(uses):
        numbers.append(_half("rollout.max_completion_length", config.rollout.max_completion_length))
    lower: list[tuple[str, object, object]] = [each for each in numbers if 1 <= each[1] < each[2]]
    if trains and not config.training.gradient_checkpointing:
        lower.insert(1, ("training.gradient_checkpointing", "true", "false"))
    if {"model", "updates", "supervised"} & set(uses) and config.policy.dtype == "float32" and on_gpu:
        lower.append(("policy.dtype", "bfloat16", "float32"))
    return lower


def _half(name: str, now: int) -> tuple[str, int, int]:
    return name, now // 2, now
