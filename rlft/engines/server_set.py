"""The servers of an engine: which of them can be asked, and what is done with all of them side by side."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from rlft.engines.server_client import ServerClient
from rlft.engines.server_requests import ServerGoneError
from rlft.errors import EngineError

logger = logging.getLogger(__name__)
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
