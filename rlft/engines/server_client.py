"""An HTTP client of one `vllm serve` process: for sampling by token ids, for its adapters and for its weights."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential_jitter

from rlft.config import ServerSettings
from rlft.engines.base import Generation
from rlft.errors import EngineError

logger = logging.getLogger(__name__)

_BUSY = {408, 425, 429, 500, 502, 503, 504}  # statuses after which another attempt may succeed
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 5.0  # seconds between attempts
_SIGN_OF_LIFE = 10.0  # the most seconds for a connection, and for a request that needs no computation


class ServerGoneError(Exception):
    """Raised when a server does not answer, after all attempts.

    `status` is the HTTP status where it answered that it is busy or failed, and 0 without any answer.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ServerRefusedError(Exception):
    """Raised for an answer that asking again would not change: a refusal, or one that cannot be understood.

    `status` is the HTTP status, or 0 for an answer that cannot be understood.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ServerClient:
    """Makes requests to one server.

    Every request is tried `settings.attempts` times, each for at most `settings.timeout_seconds`, before it raises
    ServerGoneError. The limit does not cover headers that arrive in small pieces, and an answer whose body stops coming
    may take up to twice as long. If nothing listens at the address, ServerGoneError is raised at once: a server that is
    started again does not have the policy's weights.
    """

    def __init__(self, address: str, settings: ServerSettings) -> None:
        self.address, self.settings = address.rstrip("/"), settings
        limits = httpx.Limits(max_connections=settings.concurrency, max_keepalive_connections=settings.concurrency)
        self._http = httpx.Client(base_url=self.address, limits=limits, trust_env=False)

    def generate(self, prompt: Sequence[int], parameters: dict[str, Any], *, model: str | None) -> Generation:
        """Return one completion of the prompt's token ids; `parameters` are vLLM's SamplingParams.

        `model` names an adapter, or is `None` for the server's own model. Raises ServerGoneError if the server does not
        answer or has lost the adapter, and ServerRefusedError for a refusal or a malformed answer.
        """
        body = {"token_ids": list(prompt), "sampling_params": parameters}
        try:
            response = self._post("/inference/v1/generate", body | ({"model": model} if model else {}))
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
        return self._must("GET", "/v1/models", read=_smallest_context, timeout=_SIGN_OF_LIFE)

    def load_adapter(self, name: str, folder: Path) -> None:
        """Load the adapter in `folder` under this name. Raises EngineError if the server refuses."""
        body = {"lora_name": name, "lora_path": str(folder)}
        self._must("POST", "/v1/load_lora_adapter", body, accept="already been loaded")

    def unload_adapter(self, name: str) -> None:
        """Unload an adapter, to make room for others; a server that is gone or does not know it is no error."""
        try:
            self._call("POST", "/v1/unload_lora_adapter", {"lora_name": name}, _SIGN_OF_LIFE)
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
            return self._read(self._call("POST", "/collective_rpc", body, attempts=1), _checksums)
        except ServerRefusedError as refused:
            logger.info("%s does not tell the checksums of its weights: %s", self.address, refused)
            return []

    def reset_prefix_cache(self) -> None:
        """Empty the prefix cache, which was computed with earlier weights. Raises EngineError if the server refuses."""
        self._must("POST", "/reset_prefix_cache")

    def world_size(self) -> int:
        """Return how many workers the server has."""
        return self._must("GET", "/get_world_size", read=lambda said: int(said["world_size"]), timeout=_SIGN_OF_LIFE)

    def base_model(self) -> str | None:
        """Return the name or folder of the model that the server was started with, if it says."""
        return self._must("GET", "/v1/models", read=_base_model, timeout=_SIGN_OF_LIFE)

    def tell_once(self, path: str, body: dict[str, Any] | None = None) -> None:
        """Post a request that must not be repeated. Raises EngineError if the server refuses, and ServerGoneError."""
        self._must("POST", path, body, attempts=1)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

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
            response = self._call(method, path, body, timeout, attempts)
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
            raise ServerRefusedError(f"{self.address} answers as vLLM does not: {response.text[:300]}") from cause

    def _post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return self._call("POST", path, body)

    def _call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None,
        timeout: float = math.inf,
        attempts: int | None = None,
    ) -> httpx.Response:
        retrying = Retrying(
            stop=stop_after_attempt(attempts or self.settings.attempts),
            wait=wait_exponential_jitter(_FIRST_WAIT, _LONGEST_WAIT),
            retry=retry_if_exception(lambda cause: isinstance(cause, ServerGoneError) and not _nobody_listens(cause)),
            reraise=True,
        )
        try:
            return retrying(self._once, method, path, body, min(timeout, self.settings.timeout_seconds))
        except ServerGoneError as gone:
            # If the server works otherwise, this request is at fault, and no reason to do without the server.
            if gone.status == 500 and self._is_healthy():
                raise ServerRefusedError(str(gone), 500) from gone
            raise

    def _is_healthy(self) -> bool:
        try:
            return self._once("GET", "/health", None, _SIGN_OF_LIFE).is_success
        except (ServerGoneError, ServerRefusedError):
            return False

    def _once(self, method: str, path: str, body: dict[str, Any] | None, timeout: float) -> httpx.Response:
        limit = httpx.Timeout(timeout, connect=min(_SIGN_OF_LIFE, timeout), pool=None)
        deadline = time.monotonic() + timeout
        try:
            with self._http.stream(method, path, json=body, timeout=limit) as arriving:
                response = _whole(arriving, deadline)
        except httpx.HTTPError as cause:
            raise ServerGoneError(f"{self.address} does not answer: {type(cause).__name__} {cause}".strip()) from cause
        if response.status_code in _BUSY:
            said = f"{self.address} answers {response.status_code}: {response.text[:300]}"
            raise ServerGoneError(said, response.status_code)
        if not response.is_success:  # a redirect, too: it is not followed, as it may lead anywhere
            said = f"{self.address} answers {response.status_code}: {response.text[:300]}"
            raise ServerRefusedError(said, response.status_code)
        return response


def _nobody_listens(cause: BaseException) -> bool:
    return isinstance(cause.__cause__, httpx.ConnectError)


def _whole(arriving: httpx.Response, deadline: float) -> httpx.Response:
    """Return the answer with its body. Raises httpx.ReadTimeout if the body is not complete at the deadline.

    httpx's own limit is for each read, which a body in many small pieces never meets.
    """
    parts: list[bytes] = []
    for part in arriving.iter_raw():
        if time.monotonic() > deadline:
            raise httpx.ReadTimeout("in the middle of an answer")
        parts.append(part)
    return httpx.Response(arriving.status_code, headers=arriving.headers, content=b"".join(parts))


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
