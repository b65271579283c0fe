"""A client of one `vllm serve` process: for sampling by token ids, for its adapters and for its weights."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from rlft.config import ServerSettings
from rlft.engines.base import Generation
from rlft.engines.server_requests import SIGN_OF_LIFE, Requests, ServerGoneError, ServerRefusedError, shown
from rlft.errors import EngineError

logger = logging.getLogger(__name__)


class ServerClient:
    """Asks one server for completions, and gives it weights.

    Requests are tried again as `rlft.engines.server_requests` says, which raises ServerGoneError if all attempts fail.
    `key` goes with each, if the server asks for one.
    """

    def __init__(self, address: str, settings: ServerSettings, key: str | None = None) -> None:
        self._requests = Requests(address, settings, {"authorization": f"Bearer {key}"} if key else None)
        self.address = self._requests.address

    def generate(self, prompt: Sequence[int], parameters: dict[str, Any], *, model: str | None) -> Generation:
        """Return one completion of the prompt's token ids; `parameters` are vLLM's SamplingParams.

        `model` names an adapter, or is `None` for the server's own model. Raises ServerGoneError if the server does not
        answer or has lost the adapter, and ServerRefusedError for a refusal or a malformed answer.
        """
        body = {"token_ids": list(prompt), "sampling_params": parameters}
        try:
            response = self._requests.send("POST", "/inference/v1/generate", body | ({"model": model} if model else {}))
        except ServerRefusedError as refused:
            if model and refused.status == 404:  # it was started again, without the adapter that it was given
                raise ServerGoneError(f"{self.address} has lost its adapter: {refused}") from refused
            raise
        token_ids, logprobs, finish_reason = self._read(response, _completion)
        if len(logprobs) != len(token_ids) or finish_reason not in ("stop", "length"):
            reason = f"{self.address} ended a completion with {finish_reason!r}"
            raise ServerRefusedError(f"{reason}, {len(token_ids)} tokens and {len(logprobs)} log-probabilities")
        return Generation(np.asarray(token_ids, dtype=np.int32), np.asarray(logprobs, dtype=np.float32), finish_reason)

    def context_length(self) -> int:
        """Return the most tokens of prompt and completion together. Raises EngineError and ServerGoneError."""
        return self._must("GET", "/v1/models", read=_smallest_context, timeout=SIGN_OF_LIFE)

    def load_adapter(self, name: str, folder: Path) -> None:
        """Load the adapter in `folder` under this name. Raises EngineError if the server refuses."""
        body = {"lora_name": name, "lora_path": str(folder)}
        self._must("POST", "/v1/load_lora_adapter", body, accept="already been loaded")

    def unload_adapter(self, name: str) -> None:
        """Unload an adapter, to make room for others; a server that is gone or does not know it is no error."""
        try:
            self._requests.send("POST", "/v1/unload_lora_adapter", {"lora_name": name}, SIGN_OF_LIFE)
        except (ServerGoneError, ServerRefusedError):
            return

    def reload_weights(self, folder: Path) -> None:
        """Make the server read all weights from the checkpoint in `folder`. Raises EngineError if it refuses."""
        self._must("POST", "/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}})

    def weight_checksums(self) -> list[dict[str, str]]:
        """Return each worker's checksums by worker and tensor, or none if the server has no such method.

        Raises ServerGoneError.
        """
        body = {"method": "compute_weight_checksums"}
        try:
            return self._read(self._requests.send("POST", "/collective_rpc", body, attempts=1), _checksums)
        except ServerRefusedError as refused:
            logger.info("%s does not tell the checksums of its weights: %s", self.address, refused)
            return []

    def reset_prefix_cache(self) -> None:
        """Empty the prefix cache, which was computed with earlier weights. Raises EngineError if the server refuses."""
        self._must("POST", "/reset_prefix_cache")

    def world_size(self) -> int:
        """Return how many workers the server has."""
        return self._must("GET", "/get_world_size", read=lambda said: int(said["world_size"]), timeout=SIGN_OF_LIFE)

    def base_model(self) -> str | None:
        """Return the name or folder of the model that the server was started with, if it says."""
        return self._must("GET", "/v1/models", read=_base_model, timeout=SIGN_OF_LIFE)

    def tell_once(self, path: str, body: dict[str, Any] | None = None) -> None:
        """Post a request that must not be repeated. Raises EngineError if the server refuses, and ServerGoneError."""
        self._must("POST", path, body, attempts=1)

    def close(self) -> None:
        """Close the connections."""
        self._requests.close()

    def _must(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        read: Callable[[Any], Any] | None = None,
        timeout: float = math.inf,
        accept: str | None = None,
        attempts: int | None = None,
    ) -> Any:
        """Make a request, and raise EngineError, with what to do, if it is refused.

        A refusal with the text `accept` counts as success: the answer to an earlier attempt was lost, and the server
        has done already what was asked.
        """
        try:
            response = self._requests.send(method, path, body, timeout, attempts)
            return read and self._read(response, read)
        except ServerRefusedError as cause:
            if accept is not None and accept in str(cause):
                return None
            raise EngineError(
                str(cause),
                where=f"rollout.server: {self.address}{path}",
                fix="`rlft serve-engine CONFIG` starts a server with all that is needed; it must see the files of "
                "this machine",
            ) from cause

    def _read(self, response: httpx.Response, read: Callable[[Any], Any]) -> Any:
        try:
            return read(response.json())
        # OverflowError, as `float` of a huge JSON integer raises.
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as cause:
            raise ServerRefusedError(f"{self.address} answers as vLLM does not: {shown(response)}") from cause


def _completion(answer: Any) -> tuple[list[int], list[float], Any]:
    """Return token ids, their log-probabilities and the finish reason of an answer."""
    choice = answer["choices"][0]
    content = (choice.get("logprobs") or {}).get("content") or []
    token_ids = choice["token_ids"] or []
    if not all(type(token) is int and 0 <= token < 2**31 for token in token_ids):
        raise ValueError("a token id is no int32")
    return token_ids, [float(token["logprob"]) for token in content], choice["finish_reason"]


def _base_model(answer: Any) -> str | None:
    return next((model["root"] for model in answer["data"] if model.get("root") and not model.get("parent")), None)


def _checksums(answer: Any) -> list[dict[str, str]]:
    return [dict(worker.items()) for worker in answer["results"]]


def _smallest_context(answer: Any) -> int:
    return min(model["max_model_len"] for model in answer["data"] if model.get("max_model_len"))
