"""Whether there can be a GPU, found out without importing torch where that is possible."""

from __future__ import annotations

import ctypes
from importlib.metadata import version

from rlft.errors import PolicyError


def why_no_gpu() -> str | None:
    """Why torch cannot see a GPU here; `None` where only torch itself can tell."""
    build = version("torch")
    if build.endswith("+cpu"):
        return "torch is built for CPUs alone"
    if "+rocm" in build:
        return None
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver"
    return None


def check_device(device: str) -> None:
    """Raises PolicyError for `cuda` on a machine that certainly has no GPU for torch."""
    if device == "cuda" and (reason := why_no_gpu()):
        raise PolicyError(f"there is no GPU: {reason}", where="policy.device", fix="set policy.device to auto or cpu")


def check_device_with_torch(device: str) -> None:
    """Raises PolicyError for `cuda` where torch sees no GPU. Imports torch if it is asked for."""
    if device == "cuda":
        from rlft.policy.origin import choose_device

        choose_device(device)
