"""vLLM in the process that trains, `auto`, which takes it where that is faster, and servers of vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlft.engines.kinds import EngineKind, is_installed
from rlft.engines.kinds.transformers import Transformers
from rlft.errors import EngineError

if TYPE_CHECKING:
    from rlft.config import EngineSettings
    from rlft.engines.base import Engine


class Vllm(EngineKind):
    """vLLM in this process, with a copy of the weights."""

    name = "vllm"
    # vLLM 0.32 replaces a temperature between 0 and 0.01 by 0.01, in its log-probabilities too, and takes none above 2.
    temperatures = (0.01, 2.0)
    library, setup = "vllm", "make setup-vllm"

    def create(self, settings: EngineSettings, batch_size: int) -> Engine:
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


ANSWER_SECONDS = 5.0
"""How many seconds a server may take to say which models it has."""


class VllmServer(Vllm):
    """`vllm serve` processes, which `rollout.server` names."""

    name = "vllm_server"
    library = ""
    restarts = False

    def create(self, settings: EngineSettings, batch_size: int) -> Engine:
        """Return an engine."""
        from rlft.engines.vllm_server import VllmServerEngine

        return VllmServerEngine(settings)

    def check(self, settings: EngineSettings) -> None:
        """Raise ValueError if no server is named."""
        if not settings.server.addresses:
            raise ValueError(
                "engine vllm_server needs server.addresses, such as [http://127.0.0.1:8000]; `rlft serve-engine "
                "CONFIG` starts a server there"
            )

    def check_here(self, settings: EngineSettings) -> None:
        """Raise EngineError if a server does not answer.

        Raises ConfigError for addresses as `read_addresses` does.
        """
        import httpx

        for address in settings.server.read_addresses():
            try:  # past any proxy
                httpx.get(f"{address}/v1/models", timeout=ANSWER_SECONDS, trust_env=False).raise_for_status()
            except httpx.HTTPError as error:
                raise EngineError(
                    f"{address} cannot be asked: {type(error).__name__} {error}",
                    where="rollout.server.addresses",
                    fix="start it with `rlft serve-engine CONFIG` and wait until it listens, or correct the address",
                ) from error
