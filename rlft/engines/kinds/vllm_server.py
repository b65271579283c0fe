"""Servers of vLLM: programs that run already, or that are started for the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlft.engines.kinds.vllm import Vllm
from rlft.errors import EngineError

if TYPE_CHECKING:
    from rlft.config import EngineSettings
    from rlft.engines.base import Engine
    from rlft.engines.vllm_server import Starter

ANSWER_SECONDS = 5.0
"""How many seconds a server may take to say which models it has."""


class VllmServer(Vllm):
    """`vllm serve` processes, which `rollout.server` names or has started."""

    name = "vllm_server"
    restarts = False

    def create(self, settings: EngineSettings, batch_size: int, starter: Starter | None = None) -> Engine:
        """Return an engine."""
        from rlft.engines.vllm_server import VllmServerEngine

        return VllmServerEngine(settings, starter)

    def check(self, settings: EngineSettings) -> None:
        """Raise ValueError if no server is named or to be started."""
        if not settings.server.addresses and not settings.server.engines:
            raise ValueError(
                "engine vllm_server needs server.addresses, such as [http://127.0.0.1:8000]; `rlft serve-engine "
                "CONFIG` starts a server there, and with `distributed` server.engines are started for the run"
            )

    def check_here(self, settings: EngineSettings) -> None:
        """Raise EngineError if vLLM is missing for servers to be started, or one that is named does not answer.

        Raises ConfigError for addresses as `read_addresses` does.
        """
        if settings.starts_engines:
            self.check_library()
        problems = [said for address in settings.server.read_addresses() if (said := _problem(address))]
        if problems:
            raise EngineError(
                "; ".join(problems),
                where="rollout.server.addresses",
                fix="start it with `rlft serve-engine CONFIG` and wait until it listens, or correct the address",
            )


def _problem(address: str) -> str | None:
    """Return what is wrong with a server, or `None` if it says which models it has."""
    import httpx

    try:
        answer = httpx.get(f"{address}/v1/models", timeout=ANSWER_SECONDS, trust_env=False)  # past any proxy
        return None if answer.raise_for_status().json()["data"] else f"{address} serves no model"
    except httpx.TimeoutException:
        return f"{address} does not answer within {ANSWER_SECONDS:g} s"
    except httpx.HTTPStatusError as error:
        return f"{address} answers as vLLM does not: HTTP {error.response.status_code}"
    except httpx.HTTPError as error:
        return f"{address} cannot be reached: {error}"
    except (ValueError, KeyError, TypeError):
        return f"{address} answers as vLLM does not"
