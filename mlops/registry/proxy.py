"""The HTTP application before an engine: it adds the version's context, passes answers on as they come, and says which
version has given them."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import anyio
import httpx
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from mlops.registry.conversations import (
    INVOCATIONS,
    LONGEST_ANSWER,
    LONGEST_REQUEST,
    TAG_HEADER,
    Conversations,
    Exchange,
    read_tags,
)
from mlops.registry.engines import Backend
from mlops.tracking.traces import trace_id

_CHAT = "/v1/chat/completions"
ENVIRONMENT_TAG = "rlft.environment"
_LARGEST = 2 << 20  # bytes of a body
_BODY_SECONDS = 60.0  # for a whole body to come
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


@dataclass
class Serving:
    """What is served now, by which engine; `follows` says whether the server goes on with the alias."""

    current: Backend
    engine: str
    follows: bool

    def as_json(self) -> dict[str, Any]:
        """Return the answer of `/rlft/version`."""
        version = self.current.version
        return {
            "name": version.name,
            "version": version.number,
            "alias": version.alias,
            "weights_sha256": version.weights_hash,
            "environments": list(version.context.get("members") or {}),
            "engine": self.engine,
            "since": self.current.since.isoformat(timespec="seconds"),
            "follows": self.follows,
        }


@dataclass(frozen=True, slots=True)
class _Mark:
    """The key of a conversation that is logged, and the tags that the client gave it."""

    key: bytes
    tags: Mapping[str, str]


class Proxy:
    """Passes requests for `paths` on to the engine that has the version served now, and nothing else.

    `log` gets every conversation, if there is one. `local` says that it listens on loopback, where
    pages of other hosts in a browser of this machine must not ask anything.
    """

    def __init__(
        self, serving: Serving, paths: frozenset[str], log: Conversations | None = None, *, local: bool = True
    ) -> None:
        self.serving, self._paths, self._log, self._local = serving, paths, log, local
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
        passed = [Route(path, self._pass_on, methods=["GET", "POST"]) for path in self._paths]
        return Starlette(routes=[*own, *passed], max_body_size=_LARGEST)

    async def close(self) -> None:
        """Close the connections to engines."""
        await self._client.aclose()

    async def _version(self, request: Request) -> Response:
        del request
        return JSONResponse(self.serving.as_json(), headers=version_headers(self.serving.current))

    async def _health(self, request: Request) -> Response:
        del request
        return Response(status_code=200, headers=version_headers(self.serving.current))

    async def _models(self, request: Request) -> Response:
        del request
        served = self.serving.current
        entry: dict[str, Any] = {"id": served.version.name, "object": "model", "owned_by": "rlft", "root": served.model}
        entry["created"] = int(served.since.timestamp())
        return JSONResponse({"object": "list", "data": [entry]}, headers=version_headers(served))

    async def _pass_on(self, request: Request) -> Response:
        served, path = self.serving.current, request.url.path
        if refused := refusal(request.method, request.headers, local=self._local):
            return self._refuse(served, *refused)
        served.in_flight += 1  # counted before anything is awaited: a version is not freed between
        handed_over = False

        def over() -> None:
            served.in_flight -= 1

        try:
            async with asyncio.timeout(_BODY_SECONDS):
                content = await request.body()
            try:
                mark = self._mark(path, request, len(content))
                named = request.headers.get(ENVIRONMENT_HEADER)
                if named is not None and path != _CHAT:
                    raise ValueError(
                        f"the header {ENVIRONMENT_HEADER} is for {_CHAT} alone: nothing is added to what is sent here"
                    )
                context = context_of(served.version.context, named)
            except ValueError as wrong:
                return self._refuse(served, 400, str(wrong))
            if path.startswith("/v1/"):
                if (asked := _json(content)) is None:
                    return self._refuse(served, 400, "the body is no JSON object")
                model = asked.get("model")
                if model is not None and not (isinstance(model, str) and model in served.version.names):
                    names = f"{served.version.name} (version {served.version.number})"
                    return self._refuse(served, 404, f"the model {model!r:.200} is not served here; there is {names}")
                asked["model"] = served.model
                if path == _CHAT:
                    asked = with_context(asked, context, reads_calls=served.reads_calls)
                # Half a letter stays an escape.
                content = json.dumps(asked, ensure_ascii=False).encode(errors="backslashreplace")
            start = time.time_ns()
            try:
                answer = await self._send(served, request, content)
            except httpx.HTTPError as cause:
                return self._refuse(served, 502, f"the engine does not answer: {type(cause).__name__}")
            handed_over = True
            headers = passed_on(answer.headers) | version_headers(served)
            headers |= {TRACE_HEADER: trace_id(mark.key)} if mark else {}
            return _PassedOn(self._passing(served, path, content, answer, start, mark), headers, answer, over)
        except ClientDisconnect:
            return Response(status_code=499)
        except TimeoutError:
            return self._refuse(served, 408, f"the body has not come within {_BODY_SECONDS:g} seconds")
        finally:
            if not handed_over:
                over()

    def _mark(self, path: str, request: Request, size: int) -> _Mark | None:
        """Return how a conversation is logged; `None` if it is not. Raises ValueError for tags that are none."""
        tags = read_tags(request.headers.getlist(TAG_HEADER))
        if named := request.headers.get(ENVIRONMENT_HEADER):
            tags[ENVIRONMENT_TAG] = named
        if self._log is None or path not in _CONVERSATIONS or size > LONGEST_REQUEST:
            return None
        return _Mark(secrets.token_bytes(16), tags)

    async def _send(self, served: Backend, request: Request, content: bytes) -> httpx.Response:
        own = {"authorization", "host", "accept-encoding"}
        headers = {name: value for name, value in passed_on(request.headers).items() if name.lower() not in own}
        address = served.address + request.url.path + (f"?{request.url.query}" if request.url.query else "")
        # Uncompressed, so that what is logged can be read.
        sent = headers | served.headers | {"accept-encoding": "identity"}
        made = self._client.build_request(request.method, address, content=content, headers=sent)
        return await self._client.send(made, stream=True)

    async def _passing(
        self,
        served: Backend,
        path: str,
        asked: bytes,
        answer: httpx.Response,
        start: int,
        mark: _Mark | None,
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
                given = served.version, path, asked, answer.status_code, kind, bytes(kept), start, end
                self._log.add(Exchange(*given, mark.key, mark.tags))

    def _refuse(self, served: Backend, status: int, what: str) -> Response:
        error = {"message": what, "type": "invalid_request_error" if status < 500 else "server_error", "code": status}
        return JSONResponse({"error": error}, status, version_headers(served))


class _PassedOn(StreamingResponse):
    """An answer of the engine. However it ends, the engine is told, and `over` is called."""

    def __init__(
        self, body: AsyncIterator[bytes], headers: dict[str, str], answer: httpx.Response, over: Callable[[], None]
    ) -> None:
        super().__init__(body, answer.status_code, headers)
        self._answer, self._over = answer, over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._over()
            with anyio.CancelScope(shield=True):  # of a client that has gone away this task is being cancelled
                await self._answer.aclose()


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


def refusal(method: str, headers: Mapping[str, str], *, local: bool) -> tuple[int, str] | None:
    """Return the status and the sentence with which a request is refused; `None` if it is not.

    `local` says that the server listens on loopback: a request must then name loopback as its host, and as its origin,
    if it has one.
    """
    named = {"Host": f"//{headers.get('host', '')}", "Origin": headers.get("origin")}
    for header, address in named.items() if local else ():
        if address is not None and not _is_loopback(address):
            return 403, f"the header {header} names another host than this machine; a proxy in between must set it anew"
    if method == "POST" and headers.get("content-type", "").split(";")[0].strip().lower() in _OF_ANY_PAGE:
        return 415, "the body must be JSON; send the header Content-Type: application/json"
    return None


def _is_loopback(address: str) -> bool:
    try:
        host = urlsplit(address).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
