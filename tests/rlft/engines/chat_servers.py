"""A small HTTP server that answers as an OpenAI-compatible endpoint does, as it is told, and can fail."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HANG, DROP = "hang", "drop"
ASKED = "/v1/chat/completions"
Answer = Callable[[dict[str, Any], int], Any]


def completion(message: Any, finish: str | None = "stop", usage: Any = None) -> dict[str, Any]:
    """The JSON of an answer; a text is its content."""
    message = {"role": "assistant", "content": message} if isinstance(message, str) else message
    said = {"id": "x", "object": "chat.completion", "model": "small-1", "choices": [{"index": 0, "message": message}]}
    said["choices"][0]["finish_reason"] = finish
    return said | ({"usage": usage} if usage is not None else {})


def function_call(name: str, arguments: Any, id: str = "call_1") -> dict[str, Any]:
    """A call as an endpoint writes it: arguments are text."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


class ChatServer:
    """On a free port of loopback. `answer(body, number)` decides what a request of this number, from 1, gets.

    JSON (a dict) is an answer, a text the content of one, a number refuses with that status, (status, content, headers)
    is sent as it is, DROP closes the connection, and HANG never answers. `bodies` and `headers` hold what was asked.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.paths: list[str] = []
        self.at_once, self._now = 0, 0  # the most requests at the same time
        self._lock, self._over = threading.Lock(), threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ChatServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Accept no more connections, and let go of those that hang."""
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def reply(self, path: str, body: dict[str, Any], headers: Mapping[str, str]) -> tuple[int, Any, dict] | None:
        """Status, content and headers; None where the connection is to be closed."""
        with self._lock:
            self.paths.append(path)
            self.bodies.append(body)
            self.headers.append(headers)
            number = len(self.bodies)
            self._now += 1
            self.at_once = max(self.at_once, self._now)
        try:
            said = self._answer(body, number) if path == ASKED else 404
            if said == HANG:
                self._over.wait(30)
        finally:
            with self._lock:
                self._now -= 1
        if said in (HANG, DROP):
            return None
        if isinstance(said, int):
            return said, {"error": {"message": f"told to answer {said}"}}, {}
        return said if isinstance(said, tuple) else (200, completion(said) if isinstance(said, str) else said, {})


def _handler_of(small: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            said = small.reply(self.path, json.loads(self.rfile.read(length) or b"{}"), dict(self.headers))
            if said is None:
                self.close_connection = True
                return
            status, content, headers = said
            content = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    return Handler
