"""The running `vllm serve` processes of an engine: a client of each, those that can be asked, and who is asked next.

Requests are divided among servers: one that has room gets the next group, which stays together there. Its requests have
the same prompt, which a server then encodes once.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import httpx
import numpy as np

from rlft.config import ServerSettings
from rlft.engines.base import Generation
from rlft.engines.server_requests import SIGN_OF_LIFE, Requests, ServerGoneError, ServerRefusedError, shown
from rlft.errors import EngineError

logger = logging.getLogger(__name__)
START_AGAIN = "start it again (`rlft serve-engine CONFIG`)"


class ServerClient:
    """Asks one server for completions, and gives it weights.

    Requests are tried again as `rlft.engines.server_requests` says, which raises ServerGoneError if all attempts fail.
    """

    def __init__(self, address: str, settings: ServerSettings) -> None:
        self._requests = Requests(address, settings)
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
    ) -> Any:
        """Make a request, and raise EngineError, with what to do, if it is refused.

        A refusal with the text `accept` counts as success: the answer to an earlier attempt was lost, and the server
        has done already what was asked.
        """
        try:
            response = self._requests.send(method, path, body, timeout)
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


def _smallest_context(answer: Any) -> int:
    return min(model["max_model_len"] for model in answer["data"] if model.get("max_model_len"))


Failure = EngineError | ServerGoneError
"""Why a server is left out."""


class ServerSet:
    """Holds the clients of all servers, and which of them are `live`: have answered since the last push of weights.

    A server that refuses what it is given is an error of the setup until `proven` is set, after the first policy; later
    it is only left out.
    """

    def __init__(self, clients: Sequence[ServerClient]) -> None:
        self.clients, self.live = list(clients), list[ServerClient]()
        self.proven = False
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

        with ThreadPoolExecutor(max(1, len(clients))) as pool:
            found = list(pool.map(attempt, clients)) if together else list(map(attempt, clients))
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
        raise EngineError(str(cause), where="rollout.server", fix=START_AGAIN) from cause

    def leave_out(self, client: ServerClient, cause: Failure) -> None:
        """Do without a server until the next policy comes, as nobody knows which weights it has once it is back."""
        with self._lock:
            if client not in self.live:
                return
            self.live = [other for other in self.live if other is not client]
        said = cause.what if isinstance(cause, EngineError) else str(cause)
        logger.warning("%s; %d of %d servers left", said, len(self.live), len(self.clients))

    def close(self) -> None:
        """Close the connections; the servers keep running."""
        for client in self.clients:
            client.close()
        self.live = []


Server = TypeVar("Server", bound=Hashable)


def spread(
    groups: Sequence[Sequence[int]],
    live: Callable[[], Sequence[Server]],
    ask: Callable[[Server, int], bool],
    *,
    width: int,
) -> None:
    """Make all requests of some groups, and return when each has a result or no server is left for it.

    A request is its place. `live` returns the servers that can be asked now. Each makes `width` requests at a time, and
    takes the next group when its last one is under way. `ask` makes one, and returns `False` where it must be made
    elsewhere. Raises what `ask` raises; then no further request is begun.
    """
    waiting, lock, stopped = deque(map(deque, groups)), threading.Lock(), threading.Event()
    taken: dict[Server, deque[int]] = defaultdict(deque)

    def take(server: Server) -> int | None:
        with lock:
            if not taken[server] and waiting:
                taken[server] = waiting.popleft()
            return taken[server].popleft() if taken[server] and not stopped.is_set() else None

    def work(server: Server) -> None:
        while server in live() and (request := take(server)) is not None:
            try:
                answered = ask(server, request)
            except BaseException:
                stopped.set()
                raise
            if not answered:
                taken[server].append(request)
                return

    while waiting and (there := live()):
        pool = ThreadPoolExecutor(width * len(there))
        try:  # the servers in turn, so that few groups are divided among them
            for done in [pool.submit(work, server) for _ in range(width) for server in there]:
                done.result()
        except BaseException:
            stopped.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        waiting.extend(filter(None, taken.values()))  # what a server had that has gone
        taken.clear()


def alike(prompts: Sequence[Sequence[int]], most: int) -> list[list[int]]:
    """Return the places of equal prompts as groups of at most `most`, in the order in which they come first."""
    places: dict[tuple[int, ...], list[int]] = {}
    for place, prompt in enumerate(prompts):
        places.setdefault(tuple(prompt), []).append(place)
    return [group[start : start + most] for group in places.values() for start in range(0, len(group), most)]
