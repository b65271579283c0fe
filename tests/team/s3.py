"""S3 by moto, which fails in the way that a file names: run by the servers' Python, which has moto.

    python s3.py PORT KEY FAULT

FAULT is a file that is read at each request: empty, or `denied`, `full`, `broken`, `gone` (the connection is cut) or
`slow` (a tenth of a second each), and after it, where only some requests fail, the methods that do (`denied PUT POST`),
and how many of them pass before (`full PUT 2`). Other keys than KEY are unknown, as they are to any store. All is kept
in memory.

Where the pieces of a large file are put together a client may ask once more before there is an answer. It then gets
that of the first request, as from a store; moto alone would not know the upload any more.
"""

from __future__ import annotations

import re
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

_ERROR = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{}</Code><Message>{}</Message></Error>'
FAULTS = {
    "denied": ("403 Forbidden", "AccessDenied", "Access Denied"),
    "full": ("507 Insufficient Storage", "XMinioStorageFull", "Storage backend has reached its minimum free space."),
    "broken": ("500 Internal Server Error", "InternalError", "We encountered an internal error, please try again."),
    "unknown": ("403 Forbidden", "InvalidAccessKeyId", "The access key does not exist in our records."),
}


class Faulty:
    """moto's application behind a fault."""

    def __init__(self, key: str, fault: Path) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self._key, self._fault = key, fault
        self._text, self._passed, self._lock = "", 0, threading.Lock()
        self._completing: dict[str, tuple[threading.Lock, list[Any]]] = {}

    def __call__(self, environ, start_response):
        """Answer a request, or refuse it."""
        fault, *methods = self._read()
        used = re.search(r"Credential=([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
        if used is not None and used[1] != self._key:
            fault, methods = "unknown", []
        if fault == "" or (methods and not self._fails(environ["REQUEST_METHOD"], methods)):
            upload = re.search(r"\buploadId=([^&]+)", environ.get("QUERY_STRING", ""))
            if environ["REQUEST_METHOD"] == "POST" and upload is not None:
                return self._complete(upload[1], environ, start_response)
            return self._app(environ, start_response)
        if fault == "slow":
            time.sleep(0.1)
            return self._app(environ, start_response)
        if fault == "gone":
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionError("gone")
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))  # who sends a body reads no answer before
        status, code, message = FAULTS[fault]
        start_response(status, [("Content-Type", "application/xml")])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [_ERROR.format(code, message).encode()]

    def _complete(self, upload: str, environ, start_response):
        with self._lock:
            own, answer = self._completing.setdefault(upload, (threading.Lock(), []))
        with own:
            if not answer:
                head: list[Any] = []
                body = b"".join(self._app(environ, lambda *given: head.append(given)))
                answer += [head[0], body]
            else:
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response(*answer[0])
        return [answer[1]]

    def _read(self) -> list[str]:
        """Return the words of the file; what has passed counts from when it was written."""
        with self._lock:
            if (text := self._fault.read_text()) != self._text:
                self._text, self._passed = text, 0
            return text.split() or [""]

    def _fails(self, method: str, words: list[str]) -> bool:
        """Return whether a request of this method fails, after those that pass."""
        if method not in words:
            return False
        with self._lock:
            self._passed += 1
            return self._passed > sum(int(word) for word in words if word.isdigit())


if __name__ == "__main__":
    port, key, fault = sys.argv[1:]
    run_simple("127.0.0.1", int(port), Faulty(key, Path(fault)), threaded=True)
