"""Chooses and creates an engine from its settings."""

from __future__ import annotations

from rlft.config import EngineSettings
from rlft.engines import vllm_process
from rlft.engines.base import Engine
from rlft.engines.transformers_engine import TransformersEngine
from rlft.engines.vllm_engine import VllmEngine
from rlft.engines.vllm_server import Starter, VllmServerEngine


def choose_engine(engine: str, device_type: str) -> str:
    """Return the engine's name; for `auto` that is vLLM on a GPU, if it is installed, and transformers otherwise.

    On a CPU vLLM samples more slowly (docs/performance.md). On a GPU the two have not been compared.
    """
    if engine != "auto":
        return engine
    return "vllm" if device_type == "cuda" and vllm_process.is_installed() else "transformers"


def create_engine(
    settings: EngineSettings, *, batch_size: int, device_type: str, starter: Starter | None = None
) -> Engine:
    """Return an engine without a policy, for `batch_size` rollouts at a time; vLLM starts with its first policy.

    `starter` starts the servers where the settings ask for `engines`.
    """
    engine = choose_engine(settings.engine, device_type)
    if engine == "vllm":
        return VllmEngine(settings, batch_size)
    if engine == "vllm_server":
        return VllmServerEngine(settings, starter)
    return TransformersEngine(batch_size)
