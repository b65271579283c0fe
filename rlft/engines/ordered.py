"""A `vllm serve` that is started by an order, on whatever machine, and asks for a key.

vLLM's own key leaves some routes open, among them those that reload weights, by which a program can be run. So vLLM is
given a `Guard` by `--middleware`, and imports this file.
"""

from __future__ import annotations

import hmac
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rlft.engines.child import Child, free_port
from rlft.files import folder_prefix, remove_left_behind

SERVER = "vllm.entrypoints.openai.api_server"  # what `vllm serve` starts; that command looks for a package "vllm"
_KIND = "engine"  # of temporary folders
_LOOKS_EVERY = 1.0  # seconds
# Ends a server and what it has started once nobody holds its input any more.
_ENDER = "import sys; from rlft.engines.child import end_session; sys.stdin.read(); end_session(int(sys.argv[1]))"
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


@dataclass(frozen=True, slots=True)
class Order:
    """Options and variables of a server; where it listens is for its machine to say."""

    options: tuple[str, ...]
    variables: dict[str, str]
    on_gpu: bool


@dataclass(frozen=True, slots=True)
class Served:
    """A server that answers: its address, and the key without which it answers nobody."""

    address: str
    key: str

    def __repr__(self) -> str:
        """Return it without the key."""
        return f"Served({self.address!r})"


class Ordered:
    """A server that this process has started. It ends with this process, and all that it has started with it.

    Make it in the process's main thread, as the server ends with the thread that has started it.
    """

    def __init__(self, order: Order, host: str, cores: int) -> None:
        remove_left_behind(_KIND)
        self._folder = Path(tempfile.mkdtemp(prefix=folder_prefix(_KIND)))
        key, port = secrets.token_urlsafe(24), free_port(host)
        self.served = Served(f"http://{f'[{host}]' if ':' in host else host}:{port}", key)
        threads = {} if order.on_gpu else {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": str(cores)}
        command: Sequence[str] = [sys.executable, "-m", SERVER, *order.options, "--host", host, "--port", str(port)]
        log = self._folder / "vllm.log"
        self.child = Child("vLLM", command, {**order.variables, **threads, KEY_VARIABLE: key}, log)
        self._held = _watch_from_outside(self.child.pid)
        self._over = threading.Event()

    def wait(self, within: float) -> None:
        """Wait until it answers, and from then on see to it that its engine ends with it. Raises EngineError."""
        try:
            self.child.wait_until_healthy(f"{self.served.address}{OPEN}", within, self._over)
        except BaseException:
            self.stop()
            raise
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        """End it."""
        self._over.set()
        self.child.stop()
        self._held.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _watch(self) -> None:
        """Once the server is killed, end the processes that it has left: they hold memory, or a GPU's."""
        while not self._over.wait(_LOOKS_EVERY):
            if self.child.exit_code is not None:
                self.child.stop()
                return


def _watch_from_outside(server: int) -> IO[bytes]:
    """Have a process end the server of this number once what is returned is closed, or this process has ended.

    Ray kills the children of an actor that it ends, by SIGKILL: then vLLM's server cannot end its engine. So that
    process is a grandchild, which its own parent leaves at once.
    """
    command = ["sh", "-c", 'exec 3<&0; "$@" <&3 &', "sh", sys.executable, "-c", _ENDER, str(server)]
    read, write = os.pipe()
    subprocess.run(
        command,
        stdin=read,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=True,
    )
    os.close(read)
    return os.fdopen(write, "wb")
