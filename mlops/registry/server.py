"""A server: an engine with a version, and the HTTP application before it, until a signal or its end ends both.

The application adds the version's context, passes answers on as they come, and says which version has given them.
"""

from __future__ import annotations

import ipaddress
import json
import secrets
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mlops.registry.client import NamedVersion
from mlops.registry.conversations import (
    INVOCATIONS,
    LONGEST_ANSWER,
    LONGEST_REQUEST,
    TAG_HEADER,
    Conversations,
    Exchange,
    read_tags,
)
from mlops.registry.engines import PATHS, Backend, EngineName, prepare, start_mlflow, start_vllm
from mlops.tracking.address import PATIENT_HTTP, quick_http
from mlops.tracking.traces import trace_id
from rlft.errors import ServerEndedError
from rlft.files import folder_prefix, remove_left_behind

_CHAT = "/v1/chat/completions"
ENVIRONMENT_TAG = "rlft.environment"
_LARGEST = 2 << 20  # bytes of a body
_CONNECT_SECONDS = 10.0  # an answer itself may take as long as it takes
ENVIRONMENT_HEADER, TRACE_HEADER = "rlft-environment", "rlft-trace"
_CONVERSATIONS = frozenset({_CHAT, "/v1/completions", INVOCATIONS})
_OF_SYSTEM = ("system", "developer")
# Of a message between two programs alone (RFC 9110, 7.6.1), or set anew by who sends it.
_OF_THE_CONNECTION = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
     "upgrade", "content-length", "date", "server"}
)  # fmt: skip
# What a page may send to any host without being allowed to; nothing at all is such a type, too.
_OF_ANY_PAGE = frozenset({"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"})
_LOOPBACK = ["localhost", "127.0.0.1", "[::1]"]


@dataclass(frozen=True, slots=True)
class _Mark:
    """The key of a conversation that is logged, and the tags that the client gave it."""

    key: bytes
    tags: Mapping[str, str]


class Proxy:
    """Passes requests that an engine may be asked on to it, and nothing else.

    `log` gets every conversation, if there is one. `local` says that it listens on loopback, where
    pages of other hosts in a browser of this machine must not ask anything.
    """

    def __init__(self, served: Backend, log: Conversations | None = None, *, local: bool = True) -> None:
        self._served, self._log, self._local = served, log, local
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS), limits=limits, trust_env=False
        )

    def app(self) -> Starlette:
        """Return the application."""
        own = [
            Route("/rlft/version", self._version, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/v1/models", self._models, methods=["GET"]),
        ]
        passed = [Route(path, self._pass_on, methods=["GET", "POST"]) for path in PATHS[self._served.engine]]
        hosts = _LOOPBACK if self._local else ["*"]
        guard = Middleware(TrustedHostMiddleware, allowed_hosts=hosts)
        return Starlette(routes=[*own, *passed], middleware=[guard], max_body_size=_LARGEST)

    async def _version(self, request: Request) -> Response:
        del request
        return JSONResponse(self._served.as_json(), headers=version_headers(self._served))

    async def _health(self, request: Request) -> Response:
        del request
        return Response(status_code=200, headers=version_headers(self._served))

    async def _models(self, request: Request) -> Response:
        del request
        served = self._served
        entry: dict[str, Any] = {"id": served.version.name, "object": "model", "owned_by": "rlft", "root": served.model}
        entry["created"] = int(served.since.timestamp())
        return JSONResponse({"object": "list", "data": [entry]}, headers=version_headers(served))

    async def _pass_on(self, request: Request) -> Response:
        served, path = self._served, request.url.path
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if request.method == "POST" and kind in _OF_ANY_PAGE:
            return self._refuse(415, "the body must be JSON; send the header Content-Type: application/json")
        try:
            content = await request.body()
            mark = self._mark(path, request, len(content))
            named = request.headers.get(ENVIRONMENT_HEADER)
            if named is not None and path != _CHAT:
                raise ValueError(
                    f"the header {ENVIRONMENT_HEADER} is for {_CHAT} alone: nothing is added to what is sent here"
                )
            context = context_of(served.version.context, named)
        except ClientDisconnect:
            return Response(status_code=499)
        except ValueError as wrong:
            return self._refuse(400, str(wrong))
        if path.startswith("/v1/"):
            if (asked := _json(content)) is None:
                return self._refuse(400, "the body is no JSON object")
            model = asked.get("model")
            if model is not None and not (isinstance(model, str) and model in served.version.names):
                names = f"{served.version.name} (version {served.version.number})"
                return self._refuse(404, f"the model {model!r:.200} is not served here; there is {names}")
            asked["model"] = served.model
            if path == _CHAT:
                asked = with_context(asked, context, reads_calls=served.reads_calls)
            # Half a letter stays an escape.
            content = json.dumps(asked, ensure_ascii=False).encode(errors="backslashreplace")
        start = time.time_ns()
        try:
            answer = await self._send(request, content)
        except httpx.HTTPError as cause:
            return self._refuse(502, f"the engine does not answer: {type(cause).__name__}")
        headers = passed_on(answer.headers) | version_headers(served)
        headers |= {TRACE_HEADER: trace_id(mark.key)} if mark else {}
        # Of a client that has gone away, too, the engine is told.
        passing, over = self._passing(path, content, answer, start, mark), BackgroundTask(answer.aclose)
        return StreamingResponse(passing, answer.status_code, headers, background=over)

    def _mark(self, path: str, request: Request, size: int) -> _Mark | None:
        """Return how a conversation is logged; `None` if it is not. Raises ValueError for tags that are none."""
        tags = read_tags(request.headers.getlist(TAG_HEADER))
        if named := request.headers.get(ENVIRONMENT_HEADER):
            tags[ENVIRONMENT_TAG] = named
        if self._log is None or path not in _CONVERSATIONS or size > LONGEST_REQUEST:
            return None
        return _Mark(secrets.token_bytes(16), tags)

    async def _send(self, request: Request, content: bytes) -> httpx.Response:
        own, served = {"authorization", "host", "accept-encoding"}, self._served
        headers = {name: value for name, value in passed_on(request.headers).items() if name.lower() not in own}
        headers |= {"authorization": f"Bearer {served.key}"} if served.key else {}
        address = served.address + request.url.path + (f"?{request.url.query}" if request.url.query else "")
        sent = headers | {"accept-encoding": "identity"}  # uncompressed, so that what is logged can be read
        made = self._client.build_request(request.method, address, content=content, headers=sent)
        return await self._client.send(made, stream=True)

    async def _passing(
        self, path: str, asked: bytes, answer: httpx.Response, start: int, mark: _Mark | None
    ) -> AsyncIterator[bytes]:
        """Yield an answer as it comes. One that ends early, at either end, is logged as far as it came."""
        kept, kind = bytearray(), answer.headers.get("content-type", "")
        try:
            async for part in answer.aiter_raw():
                if mark is not None and len(kept) < LONGEST_ANSWER:
                    kept += part[: LONGEST_ANSWER - len(kept)]
                yield part
        except httpx.HTTPError:
            if "event-stream" not in kind:
                raise  # which cuts the connection: the length that was announced is not reached
            yield b'data: {"error": {"message": "the engine has ended", "type": "server_error", "code": 502}}\n\n'
        finally:
            if self._log is not None and mark is not None:
                end = max(time.time_ns(), start + 1_000_000)
                given = self._served.version, path, asked, answer.status_code, kind, bytes(kept), start, end
                self._log.add(Exchange(*given, mark.key, mark.tags))

    def _refuse(self, status: int, what: str) -> Response:
        error = {"message": what, "type": "invalid_request_error" if status < 500 else "server_error", "code": status}
        return JSONResponse({"error": error}, status, version_headers(self._served))


def context_of(context: Mapping[str, Any], environment: str | None) -> Mapping[str, Any]:
    """Return the context of the environment that a request names, or the version's own if it names none.

    Raises ValueError, a sentence, for a name that the version does not know.
    """
    if environment is None:
        return context
    members = context.get("members") or {}
    if environment not in members:
        there = f"there are {', '.join(members)}" if members else "this version has the context of one environment"
        raise ValueError(f"the header {ENVIRONMENT_HEADER} names {environment!r:.80}, which is not known; {there}")
    return members[environment]


def with_context(body: Mapping[str, Any], context: Mapping[str, Any], *, reads_calls: bool) -> dict[str, Any]:
    """Return a chat request with the version's system prompt and tools, each where the request has none of its own.

    `"tools": []` in a request means none. `reads_calls` says whether the engine reads calls: where it does not, the
    tools stand in the prompt alone, and calls in the text of the answer.
    """
    asked = dict(body)
    messages = body.get("messages")
    prompt = context.get("system_prompt")
    if (
        prompt
        and isinstance(messages, list)
        and not any(isinstance(each, Mapping) and each.get("role") in _OF_SYSTEM for each in messages)
    ):
        asked["messages"] = [{"role": "system", "content": prompt}, *messages]
    tools = context.get("tools")
    if tools and body.get("tools") is None:
        asked["tools"] = list(tools)
        if not reads_calls and body.get("tool_choice") is None:
            asked["tool_choice"] = "none"
    if asked.get("tools") == []:  # vLLM refuses an empty list
        del asked["tools"]
    return asked


def version_headers(served: Backend) -> dict[str, str]:
    """Return the headers of an answer; other signs than those of ASCII are percent-encoded."""
    version = served.version
    headers = {"rlft-model": quote(version.name), "rlft-version": version.number}
    if version.alias:
        headers["rlft-alias"] = quote(version.alias)
    return headers


def passed_on(headers: Any) -> dict[str, str]:
    """Return those headers of a message that are meant for its last receiver."""
    return {name: value for name, value in headers.items() if name.lower() not in _OF_THE_CONNECTION}


def _json(content: bytes) -> dict[str, Any] | None:
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


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
