"""What a benchmark asks of the machine: memory taken, matrix products and copies a second, how busy it is."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

MIB = 1 << 20
CPU_PRODUCT, GPU_PRODUCT = 2048, 8192  # rows and columns of the square matrices
COPIED_BYTES = 1 << 30
KEPT_BYTES = 1 << 30


def allocator_variables(name: str) -> dict[str, str]:
    """Environment under which glibc's malloc is left as it is (`default`) or holds on to freed memory (`keep`).

    By default a big buffer goes back to the kernel as soon as it is freed, and the next one is paged in again.
    """
    if name == "default":
        return {}
    names = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
    return dict.fromkeys(names, str(KEPT_BYTES)) | {"MALLOC_TOP_PAD_": str(64 * MIB)}


def resident(field: str) -> float:
    """A field of /proc/self/status (Linux), MiB: `VmRSS` is what is resident now, `VmHWM` the most that was."""
    found = re.search(rf"{field}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found, f"this system does not count {field}"
    return int(found[1]) / 1024


def taken(device: str) -> float:
    """Memory taken now, MiB: the resident set, or what torch has allocated on the GPU."""
    return resident("VmRSS") if device == "cpu" else torch.cuda.memory_allocated() / MIB


class StepWatch:
    """Seconds of steps, and the most memory that one took. What happens between two steps is not counted.

    The first step is a warm-up: its memory counts (the optimizer's state is made in it), its seconds do not.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.loaded = self.peak = taken(device)
        self.steps: list[dict[str, float]] = []
        self._began = (0.0, 0.0, 0.0)

    def begin(self) -> None:
        """A step begins."""
        if self.device == "cpu":
            Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
        else:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        self._began = (time.perf_counter(), time.process_time(), busy_seconds())

    def end(self, **parts: float) -> None:
        """The step is over; `parts` are seconds of it, and what they leave is that of training.

        `cpu_seconds` are those of all threads of this process, `other_cores` how many cores other processes kept busy.
        """
        if self.device != "cpu":
            torch.cuda.synchronize()
        now = (time.perf_counter(), time.process_time(), busy_seconds())
        seconds, own, busy = (b - a for a, b in zip(self._began, now, strict=True))
        most = resident("VmHWM") if self.device == "cpu" else torch.cuda.max_memory_allocated() / MIB
        self.peak = max(self.peak, most)
        step = {f"{name}_seconds": value for name, value in parts.items()}
        step |= {"seconds": seconds, "training_seconds": seconds - sum(parts.values()), "cpu_seconds": own}
        self.steps.append(step | {"other_cores": max(0.0, busy - own) / seconds})

    def report(self) -> dict[str, Any]:
        """What was seen: memory in MiB, and the steps after the warm-up."""
        memory = {"loaded_mib": self.loaded, "resident_peak_mib": self.peak, "peak_mib": self.peak - self.loaded}
        return {**memory, "steps": self.steps[1:]}


def busy_seconds() -> float:
    """Seconds that the cores of this machine have worked since it started (Linux), for whomever."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def product_rates(device: str, dtype: str, count: int) -> list[float]:
    """Floating-point operations a second of `count` square matrix products, one after the other."""
    size = CPU_PRODUCT if device == "cpu" else GPU_PRODUCT
    generator = torch.Generator(device).manual_seed(0)
    options: dict[str, Any] = {"device": device, "dtype": getattr(torch, dtype)}
    left, right = (torch.randn(size, size, generator=generator, **options) for _ in range(2))
    result = torch.empty_like(left)
    return [2 * size**3 / seconds for seconds in _time(lambda: torch.mm(left, right, out=result), device, count)]


def copy_rates(device: str, count: int) -> list[float]:
    """Bytes a second, read and written together, of `count` copies inside the memory of the device."""
    source, target = (torch.empty(COPIED_BYTES // 4, device=device).fill_(1.0) for _ in range(2))
    return [2 * COPIED_BYTES / seconds for seconds in _time(lambda: target.copy_(source), device, count)]


def _time(work: Any, device: str, count: int) -> list[float]:
    """Seconds of each call, after one that is not counted."""
    seconds: list[float] = []
    for _ in range(count + 1):
        if device != "cpu":
            torch.cuda.synchronize()
        started = time.perf_counter()
        work()
        if device != "cpu":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return seconds[1:]


def describe(device: str, packages: Sequence[str]) -> dict[str, Any]:
    """Versions, cores, load and the GPU's name."""
    found: dict[str, Any] = {"versions": {name: version(name) for name in packages}, "cores": os.cpu_count()}
    found["load_average"] = list(os.getloadavg())
    if device != "cpu":
        found["gpu"] = torch.cuda.get_device_name()
    return found
