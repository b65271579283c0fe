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
from mlops.registry.proxy import Proxy, Serving
from tests.rlft.engines.chat_servers import ChatServer

VLLM_PATHS = frozenset({"/v1/chat/completions", "/v1/completions"})


class NoChild:
    """In place of a program."""

    what, exit_code = "nothing", None


def backend(server: ChatServer, number: str = "1", context: dict[str, Any] | None = None) -> Backend:
    """A version at a small engine; its `child.freed` says whether it was freed."""
    version = ServedVersion(
        "small", number, "champion", f"hash-{number}", f"m-{number}", Path("none/served"), context or {}
    )
    child: Any = NoChild()
    address = server.url.removesuffix("/v1")
    made = Backend(version, child, address, f"small/{number}", "the-key", True, lambda: setattr(child, "freed", True))
    child.freed = False
    return made


@contextmanager
def proxied(serving: Serving, log: Any = None, paths: frozenset[str] = VLLM_PATHS) -> Iterator[str]:
    """The address of a proxy."""
    config = uvicorn.Config(Proxy(serving, paths, log).app(), port=0, log_config=None, lifespan="off")
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
