"""Checks that the engine which samples rollouts is installed, or that its servers answer."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

from rlft.config import EngineSettings
from rlft.engines.ordered import is_installed
from rlft.errors import EngineError
from rlft.readiness.device import why_no_gpu

ANSWER_SECONDS = 5.0
"""How many seconds a server may take to say which models it has."""


def check_engine(settings: EngineSettings) -> None:
    """Raise EngineError if vLLM is missing, cannot sleep here, or a server does not answer as vLLM does.

    Raises ConfigError for the addresses of servers as `read_addresses` does.
    """
    if settings.engine == "vllm" or settings.starts_engines:
        if not is_installed():
            raise EngineError(
                "vLLM is not installed",
                where="rollout.engine",
                fix="make setup-vllm, or set rollout.engine: transformers",
            )
        if settings.engine == "vllm" and settings.vllm.sleep and (reason := why_no_gpu()):
            raise EngineError(f"vLLM only sleeps on a GPU, and {reason}", where="rollout.vllm.sleep", fix="remove it")
    if settings.engine == "vllm_server":
        problems = [said for address in settings.server.read_addresses() if (said := _problem(address))]
        if problems:
            raise EngineError(
                "; ".join(problems),
                where="rollout.server.addresses",
                fix="start it with `rlft serve-engine CONFIG` and wait until it listens, or correct the address",
            )


def _problem(address: str) -> str | None:
    """Return what is wrong with a server, or `None` if it says which models it has."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # as the engine asks: past any proxy
    try:
        with direct.open(f"{address}/v1/models", timeout=ANSWER_SECONDS) as response:
            return None if json.load(response)["data"] else f"{address} serves no model"
    except urllib.error.HTTPError as error:
        return f"{address} answers as vLLM does not: HTTP {error.code}"
    except (ValueError, KeyError, TypeError):
        return f"{address} answers as vLLM does not"
    except TimeoutError:
        return f"{address} does not answer within {ANSWER_SECONDS:g} s"
    except OSError as error:
        return f"{address} cannot be reached: {getattr(error, 'reason', error)}"
