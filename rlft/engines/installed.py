"""Whether vLLM is there, found out without importing it or torch."""

from __future__ import annotations

import importlib.util


def is_installed() -> bool:
    """Whether vLLM can be imported. A folder beside the config that happens to be called `vllm` is none."""
    spec = importlib.util.find_spec("vllm")
    return spec is not None and spec.origin is not None
