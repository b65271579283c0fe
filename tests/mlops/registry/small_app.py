"""A proxy before a small engine, both on loopback."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from mlops.registry.engines import Backend, ServedVersion
from mlops.registry.server import Proxy
from tests.rlft.engines.chat_servers import ChatServer


def backend(server: ChatServer, context: dict[str, Any] | None = None, child: Any = None) -> Backend:
    """A version at a small engine."""
    version = ServedVersion("small", "1", "champion", "hash-1", "m-1", Path("none/served"), context or {})
    return Backend(version, "vllm", child, server.url.removesuffix("/v1"), "small/1", "the-key", True)


@contextmanager
def proxied(served: Backend, log: Any = None, *, local: bool = True) -> Iterator[str]:
    """The address of a proxy."""
    config = uvicorn.Config(Proxy(served, log, local=local).app(), port=0, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
