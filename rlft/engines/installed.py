"""Finds out whether vLLM is installed, without importing it or torch."""

from __future__ import annotations

import importlib.util


def is_installed() -> bool:
    """Return whether vLLM can be imported."""
    spec = importlib.util.find_spec("vllm")
    # A folder that happens to be called `vllm` is found as a namespace package, which has no origin.
    return spec is not None and spec.origin is not None
