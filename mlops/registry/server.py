"""A server: an engine with a version, the proxy before it, and what watches both, until a signal ends it.

Where asked, it looks from time to time which version an alias names, and follows it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from mlops.registry.client import NamedVersion
from mlops.registry.conversations import Conversations
from mlops.registry.engines import KIND, Backend, Engine, Vllm, find
from mlops.registry.proxy import Proxy, Serving
from mlops.tracking.address import PATIENT_HTTP, quick_http
from rlft.engines.child import StoppedError
from rlft.errors import RlftError, ServerEndedError
from rlft.temporary import folder_prefix

logger = logging.getLogger(__name__)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FINISH_WITHIN = 3  # seconds for answers that are being given when a signal comes
_CONNECTIONS = 1000  # open ones that are answered; uvicorn refuses more with 503
_LOOKS_EVERY = 0.5  # seconds between looks at the engine's process


@dataclass(frozen=True, slots=True)
class Settings:
    """What is served, and how: `found` is the version that `alias` names, or one named by its number (`None`).

    `every` is how often the registry is asked, in seconds. `listener` is the socket on which requests come. With
    `log_conversations` they are logged, with personal data masked unless `mask` is false.
    """

    tracking_uri: str
    found: NamedVersion
    alias: str | None
    engine: Engine
    listener: socket.socket
    follow: bool = False
    log_conversations: bool = False
    mask: bool = True
    every: float = 30.0


def serve(settings: Settings, ready: Callable[[Backend], None]) -> int:
    """Serve until a signal comes, and return the exit code: 128 and its number. `ready` is called once it answers.

    Signals that this process ignores stay ignored. Whatever happens, the engine's programs are ended and temporary
    folders removed. Raises EngineError if the engine does not start, ServerEndedError if it ends later, and what
    `prepare` raises.
    """
    try:
        # For as long as the server runs: set and taken back by one thread, it would fail the requests of another.
        with quick_http(PATIENT_HTTP):
            return asyncio.run(_Server(settings, ready).run())
    finally:
        for child in settings.engine.children:
            child.stop()
        for left in Path(tempfile.gettempdir()).glob(f"{folder_prefix(KIND)}*"):
            shutil.rmtree(left, ignore_errors=True)


class _Server:
    def __init__(self, settings: Settings, ready: Callable[[Backend], None]) -> None:
        self.settings, self._ready = settings, ready
        self._stop = threading.Event()  # for threads that wait for an engine

    async def run(self) -> int:
        """Start the engine and serve; a signal may come at any time."""
        loop = asyncio.get_running_loop()
        self._signalled: asyncio.Future[int] = loop.create_future()
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._on_signal, number)
        given = self.settings
        starting = asyncio.create_task(asyncio.to_thread(given.engine.start, given.found, given.alias, self._stop))
        await asyncio.wait({starting, self._signalled}, return_when=asyncio.FIRST_COMPLETED)
        try:
            backend = await starting
        except StoppedError:
            return 128 + await self._signalled
        return 128 + self._signalled.result() if self._signalled.done() else await self._serve(backend)

    def _on_signal(self, number: int) -> None:
        self._stop.set()
        if not self._signalled.done():
            self._signalled.set_result(number)

    async def _serve(self, backend: Backend) -> int:
        given = self.settings
        serving = Serving(backend, "vllm" if isinstance(given.engine, Vllm) else "mlflow", given.follow)
        conversations = (
            Conversations(given.tracking_uri, given.found.name, given.mask) if given.log_conversations else None
        )
        local = ipaddress.ip_address(given.listener.getsockname()[0]).is_loopback
        proxy = Proxy(serving, given.engine.paths, conversations, local=local)
        server = _Uvicorn(
            uvicorn.Config(
                proxy.app(), log_config=None, access_log=False, lifespan="off", server_header=False,
                timeout_graceful_shutdown=_FINISH_WITHIN, limit_concurrency=_CONNECTIONS,
            )
        )  # fmt: skip
        if conversations:
            await asyncio.to_thread(conversations.start)
        tasks = [asyncio.create_task(server.serve([given.listener])), asyncio.create_task(_died(serving))]
        if given.follow:
            tasks.append(asyncio.create_task(self._watch(serving).run(given.every)))
        self._ready(backend)
        await asyncio.wait({*tasks, self._signalled}, return_when=asyncio.FIRST_COMPLETED)
        self._stop.set()
        server.should_exit = True
        await asyncio.wait(tasks[:1], timeout=_FINISH_WITHIN + 1)
        await _cancelled(tasks)
        await proxy.close()
        if conversations:
            await asyncio.to_thread(conversations.close)
        if self._signalled.done():
            return 128 + self._signalled.result()
        for task in tasks:
            if not task.cancelled() and (error := task.exception()):
                raise error
        raise ServerEndedError("the server has ended by itself", fix="start it again")

    def _watch(self, serving: Serving) -> Watch:
        given = self.settings
        name, alias, engine = given.found.name, given.alias, given.engine

        def load(running: Backend, found: NamedVersion, stop: threading.Event) -> Backend:
            return engine.beside(running, found, alias, stop)

        def ask() -> NamedVersion:
            return find(given.tracking_uri, name, alias, None)

        return Watch(serving, ask, load, self._stop)


Find = Callable[[], NamedVersion]
Load = Callable[[Backend, NamedVersion, threading.Event], Backend]


class Watch:
    """Keeps `serving` in step with the registry. `find` asks for the version, `load` loads it beside the one served."""

    def __init__(self, serving: Serving, find: Find, load: Load, stop: threading.Event) -> None:
        self.serving, self._find, self._load, self._stop = serving, find, load, stop
        self._is_away = False
        self._refused: set[str] = set()  # versions that could not be loaded; they are not tried again
        self._leaving: set[asyncio.Task[None]] = set()

    async def run(self, every: float) -> None:
        """Look every so many seconds, until cancelled."""
        while True:
            await asyncio.sleep(every)
            await self.look()

    async def look(self) -> None:
        """Look once, and go on to another version. A registry that is away is told of once, and serving goes on."""
        number = self.serving.current.version.number
        try:
            found = await asyncio.to_thread(self._find)
        except Exception as cause:  # whatever a registry throws must not end a server that answers
            if not self._is_away:
                logger.warning("the registry does not answer, and version %s is served on: %s", number, cause)
            self._is_away = True
            return
        self._is_away = False
        if found.version != number and found.version not in self._refused:
            await self._switch(found)

    async def _switch(self, found: NamedVersion) -> None:
        """Load a version, send requests to it from now on, and free the one before once its last one is answered."""
        old = self.serving.current
        logger.info("version %s is served on until version %s is loaded", old.version.number, found.version)
        try:
            new = await asyncio.to_thread(self._load, old, found, self._stop)
        except RlftError as cause:
            self._refused.add(found.version)
            served = old.version.number
            logger.error("version %s cannot be served, and %s is served on: %s", found.version, served, cause)
            return
        self.serving.current = new
        logger.info("version %s of %s is served", found.version, found.name)
        leaving = asyncio.create_task(self._free(old))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    async def _free(self, old: Backend) -> None:
        try:
            await old.released()
        except RlftError as cause:
            logger.warning("version %s could not be unloaded: %s", old.version.number, cause)


class _Uvicorn(uvicorn.Server):
    """uvicorn without handlers of its own for signals, which this process handles."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


async def _died(serving: Serving) -> None:
    """Wait until the program ends that has the version served now. Raises ServerEndedError with its last words."""
    while True:
        child = serving.current.child
        if (code := child.exit_code) is not None and child is serving.current.child:
            said = child.died(f"{child.what} has ended with exit code {code}")
            raise ServerEndedError(said.what, fix="start the server again")
        await asyncio.sleep(_LOOKS_EVERY)


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    """End tasks, and wait for them; what they raised before is still theirs to tell."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
