"""What this machine has for a run, whether its memory is enough, and which settings to lower, and to what, if not.

Torch is not imported where that is possible.
"""

from __future__ import annotations

import ctypes
import resource
import sys
from collections.abc import Collection
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import psutil

from rlft.config import Config
from rlft.errors import MemoryShortError, PolicyError, Shortage

# What a stage needs much memory for: weights, rollouts side by side, updates of the rounds, supervised training.
Use = Literal["model", "sampling", "updates", "supervised"]
Verdict = Literal["fits", "may_not_fit", "does_not_fit"]

_CPU_TOKENS, _GPU_TOKENS = 3072, 16384  # what `training.per_step_token_budget: null` means at least
_SHOWN = 200  # characters of torch's text


@dataclass(frozen=True, slots=True)
class Span:
    """A range of a quantity, from `low` to `high`, both 0 or more, in the unit of what it is a range of."""

    low: float = 0.0
    high: float = 0.0

    def __add__(self, other: Span) -> Span:
        return Span(self.low + other.low, self.high + other.high)

    def plus(self, number: float) -> Span:
        """Return the range of a sum with what is known."""
        return Span(self.low + number, self.high + number)

    def times(self, factor: float | Span) -> Span:
        """Return the range of a product with a number, or with another quantity that may lie anywhere in its range."""
        by = factor if isinstance(factor, Span) else Span(factor, factor)
        return Span(self.low * by.low, self.high * by.high)


def why_no_gpu() -> str | None:
    """Return why torch cannot see a GPU on this machine, or `None` where only torch itself can tell."""
    build = version("torch")
    if build.endswith("+cpu"):
        return "torch is built for CPUs alone"
    if "+rocm" in build:
        return None
    try:
        ctypes.CDLL("libcuda.so.1")  # the driver's library, which no CUDA build of torch brings along
    except OSError:
        return "there is no NVIDIA driver"
    return None


def check_device(device: str, where: str = "policy.device") -> None:
    """Raise PolicyError for `cuda` on a machine that certainly has no GPU for torch."""
    if device == "cuda" and (reason := why_no_gpu()):
        raise PolicyError(f"there is no GPU: {reason}", where=where, fix="set policy.device to auto or cpu")


def gpus_here() -> list[int]:
    """Return the bytes of memory of each GPU that torch sees. Torch is imported only where there may be one."""
    if why_no_gpu() is not None:
        return []
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [torch.cuda.get_device_properties(number).total_memory for number in range(count)]


def memory_bytes() -> int:
    """Return how many bytes of memory this process may use: the machine's with its swap space, or its cgroup's."""
    here = psutil.virtual_memory().total + psutil.swap_memory().total
    try:
        return min(here, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no cgroup, or one without a limit ("max")
        return here


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
    verdict = "may_not_fit" if needed.low <= there else "does_not_fit"
    return Room(verdict, needed, there, on_gpu, tuple(f"{name}={value}" for name, value, _ in lower))


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
    now: dict[str, int] = {}
    trains = bool({"updates", "supervised"} & set(uses))
    if trains:
        budget = config.training.per_step_token_budget
        now["training.per_step_token_budget"] = budget or (_GPU_TOKENS if on_gpu else _CPU_TOKENS)
    if "sampling" in uses:
        attempts = config.training.tasks_per_round * config.training.num_generations
        now["rollout.batch_size"] = min(config.rollout.batch_size, attempts)
    if {"updates", "sampling"} & set(uses):
        now["rollout.max_completion_length"] = config.rollout.max_completion_length
    lower: list[tuple[str, object, object]] = [(name, was // 2, was) for name, was in now.items() if was > 1]
    if trains and not config.training.gradient_checkpointing:
        lower.insert(1, ("training.gradient_checkpointing", "true", "false"))
    if {"model", "updates", "supervised"} & set(uses) and config.policy.dtype == "float32" and on_gpu:
        lower.append(("policy.dtype", "bfloat16", "float32"))
    return lower
