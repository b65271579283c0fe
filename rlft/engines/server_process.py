"""Programs that serve: started with their log in a file, watched, and ended with all that they have started.

`Child` is any such program. `Ordered` is a `vllm serve` that is started on whatever machine, and asks for a key: vLLM's
own leaves some routes open, among them those that reload weights, by which a program can be run. So vLLM is given a
`Guard` by `--middleware`, and imports this file.
"""

from __future__ import annotations

import ctypes
import hmac
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx
import psutil

from rlft.errors import EngineError
from rlft.files import folder_prefix, remove_left_behind
from rlft.texts.characters import visible
from rlft.texts.secrets import hide

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
_ENDS_WITHIN = 4.0  # seconds between SIGTERM and SIGKILL
_ASKED_EVERY, _ASK_SECONDS = 0.3, 5.0
_LAST_WORDS, _ERRORS = 15, 5  # the last lines of a log, and of those before them the last that name an error
_ERROR = re.compile(r"\b\w*(?:Error|Exception): ")


class StoppedError(Exception):
    """The server was told to end while a program was starting."""


class Child:
    """A program in a session of its own, so that the terminal's Ctrl-C reaches only the process that ends it."""

    def __init__(self, what: str, command: Sequence[str], variables: Mapping[str, str], log: Path) -> None:
        self.what, self.log = what, log
        libc = ctypes.CDLL(None) if sys.platform == "linux" else None

        def die_with_parent() -> None:
            if libc is not None:
                libc.prctl(_DIE_WITH_PARENT, signal.SIGTERM)

        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        """The number of the process, which is that of its session, too."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """With what the program has ended; `None` while it runs."""
        return self._process.poll()

    def wait_until_healthy(self, url: str, within: float, stop: threading.Event) -> None:
        """Wait until `url` answers 200.

        Raises EngineError with the program's last words if it ends before that or takes longer than `within` seconds,
        and StoppedError once `stop` is set.
        """
        deadline = time.monotonic() + within
        with httpx.Client(timeout=_ASK_SECONDS, trust_env=False) as client:
            while True:
                if stop.is_set():
                    raise StoppedError
                with suppress(httpx.HTTPError):  # it does not listen yet
                    if client.get(url).status_code == 200 and self.exit_code is None:
                        return
                if self.exit_code is not None:
                    raise self.died(f"{self.what} did not start: it ended with exit code {self.exit_code}")
                if time.monotonic() > deadline:
                    raise self.died(f"{self.what} did not answer within {within:g} s")
                stop.wait(_ASKED_EVERY)

    def died(self, what: str) -> EngineError:
        """Return an error that says `what`, with the errors in the program's log and its last lines."""
        log = hide(self.log.read_text(encoding="utf-8", errors="replace")).splitlines()
        lines = [*dict.fromkeys(line for line in log[:-_LAST_WORDS] if _ERROR.search(line))][-_ERRORS:]
        lines += log[-_LAST_WORDS:]
        words = "\n".join(f"    {visible(line)}" for line in lines) or "    (nothing)"
        return EngineError(f"{what}; its last words:\n{words}", fix="mend what they name, and start again")

    def stop(self) -> None:
        """End the program and all that it has started: by SIGTERM, and after four seconds by SIGKILL."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_WITHIN)
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_WITHIN)
        end_session(self.pid)


def end_session(leader: int) -> None:
    """End all processes of a session, by SIGTERM and after four seconds by SIGKILL; its leader may have ended."""
    found = _others(leader)
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        if os.getsid(leader) == leader:
            found.append(psutil.Process(leader))
    for process in found:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    for process in psutil.wait_procs(found, timeout=_ENDS_WITHIN)[1]:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _others(leader: int) -> list[psutil.Process]:
    """Return the other processes of a session: children that were left by their parents belong to it, too."""
    found = []
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, PermissionError):
            if process.pid != leader and os.getsid(process.pid) == leader:
                found.append(process)
    return found


def free_port(address: str = "127.0.0.1") -> int:
    """Return a port of an address of this machine that nobody listens on now."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as free:
        free.bind((address, 0))
        return int(free.getsockname()[1])


SERVER = "vllm.entrypoints.openai.api_server"  # what `vllm serve` starts; that command looks for a package "vllm"
_KIND = "engine"  # of temporary folders
_LOOKS_EVERY = 1.0  # seconds
# Ends a server and what it has started once nobody holds its input any more.
_ENDER = (
    "import sys; from rlft.engines.server_process import end_session; sys.stdin.read(); end_session(int(sys.argv[1]))"
)
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
