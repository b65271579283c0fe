"""Says which settings to lower, and to what, when a stage of a run has asked for more memory than there is."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

from rlft.config import Config
from rlft.errors import MemoryShortError
from rlft.shortage import Shortage

# What a stage needs much memory for: weights, rollouts side by side, updates of the rounds, supervised training.
Use = Literal["model", "sampling", "updates", "supervised"]

_CPU_TOKENS, _GPU_TOKENS = 3072, 16384  # what `training.per_step_token_budget: null` means at least
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def memory_error(stage: str, uses: Collection[Use], config: Config, kind: Shortage, said: str) -> MemoryShortError:
    """Return the error of a stage whose memory ran out.

    `stage` is the name that it is shown under, `uses` are what it needs memory for, `said` is torch's text.
    """
    settings = lower_settings(uses, config, on_gpu=kind == "gpu")
    whose = "the GPU" if kind == "gpu" else "this machine"
    lowered = " ".join(f"--set {name}={value}" for name, value, _ in settings)
    now = ", ".join(f"{name} is {was}" for name, _, was in settings)
    again = f"run it again with {lowered} ({now}), which takes from the cache what these do not change; or "
    return MemoryShortError(
        f"{whose} has too little memory{_asked(said)}",
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


def _asked(said: str) -> str:
    """Return how much was asked for, if torch's text says it."""
    found = re.search(r"tried to allocate ([0-9.]+) ?(\w+)", said, re.IGNORECASE)
    if found is None:
        return ""
    amount, unit = float(found[1].rstrip(".")), found[2]
    place = _UNITS.index(unit) if unit in _UNITS else 0
    while amount >= 1024 and place < len(_UNITS) - 1:
        amount, place = amount / 1024, place + 1
    return f": it was asked for {amount:.3g} {_UNITS[place]}"
