"""Lets nobody reach a server of vLLM who does not know its key: vLLM's own key leaves some routes open.

Among those are the routes that reload weights, by which a program can be run. vLLM loads this by `--middleware`.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

KEY_VARIABLE = "RLFT_ENGINE_KEY"
OPEN = "/health"
"""The only path that answers without the key."""
Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


class Guard:
    """ASGI middleware that answers 401 unless a request has `Authorization: Bearer KEY` with the process's key.

    Raises KeyError if the process has none.
    """

    def __init__(self, app: App) -> None:
        self._app, self._wanted = app, f"Bearer {os.environ[KEY_VARIABLE]}".encode()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer a request."""
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] == "lifespan" or scope.get("path") == OPEN or hmac.compare_digest(given, self._wanted):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"the key is missing or wrong"})
        else:
            await send({"type": "websocket.close", "code": 1008})
