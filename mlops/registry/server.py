"""A server: an engine with a version and the proxy before it, until a signal or the end of the engine ends both."""

from __future__ import annotations

import ipaddress
import socket
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from mlops.registry.client import NamedVersion
from mlops.registry.conversations import Conversations
from mlops.registry.engines import Backend, EngineName, prepare, start_mlflow, start_vllm
from mlops.registry.proxy import Proxy
from mlops.tracking.address import PATIENT_HTTP, quick_http
from rlft.errors import ServerEndedError
from rlft.files import folder_prefix, remove_left_behind

_KIND = "serve"  # of the temporary folders
_FINISH_WITHIN = 3  # seconds for answers that are being given when a signal comes
_CONNECTIONS = 1000  # open ones that are answered; uvicorn refuses more with 503


@dataclass(frozen=True, slots=True)
class Settings:
    """What is served, and how: `found` is the version that `alias` names, or one named by its number (`None`).

    `listener` is the socket on which requests come. vLLM gets the adapter on its base, or merged into it with `merge`,
    and the `extra` options. With `log_conversations` they are logged, with personal data masked unless `mask` is false.
    """

    tracking_uri: str
    found: NamedVersion
    alias: str | None
    engine: EngineName
    listener: socket.socket
    merge: bool = False
    extra: Sequence[str] = ()
    log_conversations: bool = False
    mask: bool = True


def serve(settings: Settings, ready: Callable[[Backend], None]) -> None:
    """Serve until a signal raises its exception; `ready` is called once the engine answers.

    Whatever happens, the engine's programs are ended and its files removed. Raises EngineError if the engine does not
    start, ServerEndedError if it ends later, and what `prepare` raises.
    """
    remove_left_behind(_KIND)
    with quick_http(PATIENT_HTTP), tempfile.TemporaryDirectory(prefix=folder_prefix(_KIND)) as place:
        backend = _start(settings, Path(place))
        try:
            _answer(settings, backend, ready)
        finally:
            backend.child.stop()


def _start(given: Settings, place: Path) -> Backend:
    export = given.engine == "vllm"
    version = prepare(given.tracking_uri, given.found, given.alias, place, export=export, merge=given.merge)
    if export:
        return start_vllm(version, given.extra)
    return start_mlflow(version, given.tracking_uri)


def _answer(given: Settings, backend: Backend, ready: Callable[[Backend], None]) -> None:
    """Answer until a signal comes, which is raised again once all answers are given, or until the engine ends."""
    log = Conversations(given.tracking_uri, given.found.name, given.mask) if given.log_conversations else None
    local = ipaddress.ip_address(given.listener.getsockname()[0]).is_loopback

    async def look() -> None:
        server.should_exit |= backend.child.exit_code is not None

    server = uvicorn.Server(
        uvicorn.Config(
            Proxy(backend, log, local=local).app(), log_config=None, access_log=False, lifespan="off",
            server_header=False, timeout_graceful_shutdown=_FINISH_WITHIN, limit_concurrency=_CONNECTIONS,
            callback_notify=look, timeout_notify=1,
        )
    )  # fmt: skip
    if log:
        log.start()
    ready(backend)
    try:
        server.run([given.listener])
    finally:
        if log:
            log.close()
    code = backend.child.exit_code
    said = backend.child.died(f"{backend.child.what} has ended with exit code {code}")
    raise ServerEndedError(said.what, fix="start the server again")
