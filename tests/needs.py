"""What a test needs and a machine may lack: skipped there, and a failure in CI."""

import importlib.util
import os

import pytest


def need(there: bool, reason: str) -> None:
    """Skip where something is not there; with `CI=true` fail."""
    if not there:
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


def need_vllm() -> None:
    """For tests that sample with vLLM."""
    need(importlib.util.find_spec("vllm") is not None, "vLLM is not installed; make setup-vllm")
