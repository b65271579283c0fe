"""Divides requests among servers: a group goes to where the fewest requests are live, and stays together there.

The requests of a group have the same prompt, which a server then encodes once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

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
