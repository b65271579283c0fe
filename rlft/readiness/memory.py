"""Says which settings to lower, and to what, when a stage of a run has asked for more memory than there is."""

from __future__ import annotations

import re

from rlft.config import Config
from rlft.errors import MemoryShortError
from rlft.shortage import Shortage

_CPU_TOKENS, _GPU_TOKENS = 3072, 16384  # what `training.per_step_token_budget: null` means at least
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def memory_error(stage: str, config: Config, kind: Shortage, said: str) -> MemoryShortError:
    """Return the error of a stage, by the name that it is shown under, whose memory ran out; `said` is torch's text."""
    settings = lower_settings(stage, config, on_gpu=kind == "gpu")
    whose = "the GPU" if kind == "gpu" else "this machine"
    lowered = " ".join(f"--set {name}={value}" for name, value, _ in settings)
    now = ", ".join(f"{name} is {was}" for name, _, was in settings)
    again = f"run it again with {lowered} ({now}), which takes from the cache what these do not change; or "
    return MemoryShortError(
        f"{whose} has too little memory{_asked(said)}",
        where=stage,
        fix=f"{again if settings else ''}free memory, then `rlft resume` this run",
    )


def lower_settings(stage: str, config: Config, *, on_gpu: bool) -> list[tuple[str, object, object]]:
    """Return (name, lower value, value now) of the settings that decide how much memory a stage needs."""
    found: list[tuple[str, int, int]] = []
    kind = stage.split()[0]
    if kind == "updates":
        budget = config.training.per_step_token_budget or (_GPU_TOKENS if on_gpu else _CPU_TOKENS)
        found.append(("training.per_step_token_budget", budget // 2, budget))
        found.append(_half("rollout.max_completion_length", config.rollout.max_completion_length))
    if kind in ("rollouts", "evaluation"):
        attempts = config.training.tasks_per_round * config.training.num_generations
        found.append(_half("rollout.batch_size", min(config.rollout.batch_size, attempts)))
        found.append(_half("rollout.max_completion_length", config.rollout.max_completion_length))
    if kind in ("warm", "sft") and config.warm_start is not None:
        found.append(_half("warm_start.batch_size", config.warm_start.batch_size))
    lower: list[tuple[str, object, object]] = [each for each in found if 1 <= each[1] < each[2]]
    if kind == "updates" and not config.training.gradient_checkpointing:
        lower.insert(1, ("training.gradient_checkpointing", "true", "false"))
    if kind in ("policy", "updates", "warm", "sft") and config.policy.dtype == "float32" and on_gpu:
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
