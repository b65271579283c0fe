"""The running `vllm serve` processes of an engine: a client of each, those that can be asked, and who is asked next.

Requests are divided among servers: a group goes to where the fewest are live, and stays together there. Its requests
have the same prompt, which a server then encodes once.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Generic, TypeVar

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


def _smallest_context(answer: Any) -> int:
    return min(model["max_model_len"] for model in answer["data"] if model.get("max_model_len"))


Failure = EngineError | ServerGoneError
"""Why a server is left out."""


class ServerSet:
    """Holds the clients of all servers, and which of them are `live`: have answered since the last push of weights.

    `dropped` is called with a server that is left out, and why. A server that refuses what it is given
    is an error of the setup until `proven` is set, after the first policy; later it is only left out. `fix` says what
    to do where none is left.
    """

    def __init__(
        self, clients: Sequence[ServerClient], dropped: Callable[[ServerClient, Failure], None], *, fix: str
    ) -> None:
        self.clients, self.live = list(clients), list[ServerClient]()
        self.proven, self.fix = False, fix
        self._dropped = dropped
        self._lock = threading.Lock()  # held while `live` is changed, as threads that sample may do

    def each(self, action: Callable[[ServerClient], object], *, together: bool = True) -> None:
        """Call `action` with every live server, side by side or one after the other, and leave out where it fails.

        Raises EngineError if none is left, and what an action raises that is no failure of its server.
        """
        clients = self.live

        def attempt(client: ServerClient) -> Failure | None:
            try:
                action(client)
            except (EngineError, ServerGoneError) as error:
                return error
            return None

        if together:
            with ThreadPoolExecutor(max(1, len(clients))) as pool:
                found = list(pool.map(attempt, clients))
        else:
            found = [attempt(client) for client in clients]
        cause: Failure | None = None
        for client, error in zip(clients, found, strict=True):
            if isinstance(error, EngineError) and not self.proven:
                raise error
            if error is not None:
                cause = error
                self.leave_out(client, error)
        if self.live:
            return
        if isinstance(cause, EngineError):
            raise cause
        raise EngineError(str(cause), where="rollout.server", fix=self.fix) from cause

    def leave_out(self, client: ServerClient, cause: Failure) -> None:
        """Do without a server until the next policy comes, as nobody knows which weights it has once it is back."""
        with self._lock:
            if client not in self.live:
                return
            self.live = [other for other in self.live if other is not client]
            self._dropped(client, cause)
        said = cause.what if isinstance(cause, EngineError) else str(cause)
        logger.warning("%s; %d of %d servers left", said, len(self.live), len(self.clients))

    def close(self) -> None:
        """Close the connections; the servers keep running."""
        for client in self.clients:
            client.close()
        self.live = []


Server = TypeVar("Server", bound=Hashable)


class LoadBalancer(Generic[Server]):
    """Makes all requests of some groups; a request is its place, a whole number.

    `live` returns the servers that can be asked now, and each of `servers` is asked at most `width` requests at a time.
    `ask` makes a request, and returns `False` where it must be made elsewhere, as the server is gone; `lose` is called
    with a request that no server is left for.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        live: Callable[[], Sequence[Server]],
        ask: Callable[[Server, int], bool],
        lose: Callable[[int], None],
        *,
        width: int,
    ) -> None:
        self._live, self._ask, self._lose, self._width = live, ask, lose, width
        self._pools = {server: ThreadPoolExecutor(width) for server in servers}
        self._load: Counter[Server] = Counter()  # requests that a server was given and has not answered
        self._waiting: dict[int, list[int]] = {}  # requests without a server, by group
        self._homes: dict[int, Server] = {}  # by group
        self._open = 0  # requests without a result
        self._failure: BaseException | None = None
        self._over = False
        self._changed = threading.Condition()

    def make(self, groups: Sequence[Sequence[int]]) -> None:
        """Make all requests, and return when each has a result or is lost. Raises what `ask` raises."""
        try:
            with self._changed:
                self._open = sum(map(len, groups))
                self._waiting = {number: list(group) for number, group in enumerate(groups)}
                self._hand_out()
                self._changed.wait_for(lambda: self._open == 0 or self._failure is not None)
        finally:
            with self._changed:
                self._over = True
            for pool in self._pools.values():
                pool.shutdown(wait=False, cancel_futures=True)
            for pool in self._pools.values():
                pool.shutdown()
        if self._failure is not None:
            raise self._failure

    def _hand_out(self) -> None:
        """Give groups to servers while there is room at one; the caller holds the lock."""
        while self._waiting:
            live = self._live()
            if not live:
                self._lose_all()
                return
            number, requests = next(iter(self._waiting.items()))
            server = self._homes.get(number)
            if server is None or server not in live:
                server = min(live, key=lambda each: self._load[each])
                if self._load[server] >= self._width:
                    return
            self._homes[number] = server
            del self._waiting[number]
            self._load[server] += len(requests)
            for request in requests:
                self._pools[server].submit(self._one, server, number, request)

    def _lose_all(self) -> None:
        for requests in self._waiting.values():
            for request in requests:
                self._lose(request)
            self._open -= len(requests)
        self._waiting.clear()
        self._changed.notify_all()

    def _one(self, server: Server, number: int, request: int) -> None:
        """Make a request, and hand out what there is room for then."""
        try:
            answered = self._ask(server, request)
        except BaseException as failure:
            with self._changed:
                self._failure = self._failure or failure
                self._changed.notify_all()
            return
        with self._changed:
            self._load[server] -= 1
            if self._over or self._failure is not None:
                return
            if answered:
                self._open -= 1
            else:
                self._waiting.setdefault(number, []).append(request)
            self._hand_out()
            if self._open == 0:
                self._changed.notify_all()


def alike(prompts: Sequence[Sequence[int]], most: int) -> list[list[int]]:
    """Return the places of equal prompts as groups of at most `most`, in the order in which they come first."""
    places: dict[tuple[int, ...], list[int]] = {}
    for place, prompt in enumerate(prompts):
        places.setdefault(tuple(prompt), []).append(place)
    return [group[start : start + most] for group in places.values() for start in range(0, len(group), most)]
