"""vLLM in the process that trains, and `auto`, which takes it where that is faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlft.engines.kinds.base import EngineKind, is_installed
from rlft.engines.kinds.transformers import Transformers

if TYPE_CHECKING:
    from rlft.config import EngineSettings
    from rlft.engines.base import Engine
    from rlft.engines.vllm_server import Starter


class Vllm(EngineKind):
    """vLLM in this process, with a copy of the weights."""

    name = "vllm"
    # vLLM 0.32 replaces a temperature between 0 and 0.01 by 0.01, in its log-probabilities too, and takes none above 2.
    temperatures = (0.01, 2.0)
    library, setup = "vllm", "make setup-vllm"

    def create(self, settings: EngineSettings, batch_size: int, starter: Starter | None = None) -> Engine:
        """Return an engine."""
        from rlft.engines.vllm_engine import VllmEngine

        return VllmEngine(settings, batch_size)

    def most_tokens(self, settings: EngineSettings) -> int | None:
        """Return `rollout.vllm.max_model_len`."""
        return settings.vllm.max_model_len


class Auto(Vllm):
    """vLLM on a GPU, if it is installed, and else transformers.

    On a CPU vLLM samples more slowly (docs/performance.md). On a GPU the two have not been compared.
    """

    name = "auto"
    temperatures = EngineKind.temperatures
    library = ""

    def on(self, device_type: str) -> EngineKind:
        """Return the kind that samples on this type of device."""
        return Vllm() if device_type == "cuda" and is_installed(Vllm.library) else Transformers()
