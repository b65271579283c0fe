"""What this machine has for a run, without importing torch where that is possible: a GPU, and memory."""

from __future__ import annotations

import ctypes
from importlib.metadata import version
from pathlib import Path

import psutil

from rlft.errors import PolicyError


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
