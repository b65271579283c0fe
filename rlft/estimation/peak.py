"""The most memory that this process has held so far."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass


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
