"""HTTP requests to a server that may be busy, slow or gone, with limits of time and further attempts."""

from __future__ import annotations

import math
import time
from typing import Any

import httpx
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential_jitter

from rlft.config import ServerSettings

_BUSY = {408, 425, 429, 500, 502, 503, 504}  # statuses after which another attempt may succeed
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 5.0  # seconds between attempts
SIGN_OF_LIFE = 10.0  # the most seconds for a connection, and for a request that needs no computation


class ServerGoneError(Exception):
    """Raised when a server does not answer, after all attempts.

    `status` is the HTTP status where it answered that it is busy or failed, and 0 without any answer.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ServerRefusedError(Exception):
    """Raised for an answer that asking again would not change: a refusal, or one that cannot be understood.

    `status` is the HTTP status, or 0 for an answer that cannot be understood.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Requests:
    """Sends requests to the server at `address`.

    Every request is tried `settings.attempts` times, each for at most `settings.timeout_seconds`, before it raises
    ServerGoneError. The limit does not cover headers that arrive in small pieces, and an answer whose body stops coming
    may take up to twice as long. If nothing listens at the address, ServerGoneError is raised at once: a server that is
    started again does not have the policy's weights.
    """

    def __init__(self, address: str, settings: ServerSettings) -> None:
        self.address, self.settings = address.rstrip("/"), settings
        limits = httpx.Limits(max_connections=settings.concurrency, max_keepalive_connections=settings.concurrency)
        self._http = httpx.Client(base_url=self.address, limits=limits, trust_env=False)

    def send(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        timeout: float = math.inf,
        attempts: int | None = None,
    ) -> httpx.Response:
        """Return the answer to a request, whose status is a success; `timeout` and `attempts` may lower the limits.

        Raises ServerGoneError after all attempts, and ServerRefusedError for any other status.
        """
        retrying = Retrying(
            stop=stop_after_attempt(attempts or self.settings.attempts),
            wait=wait_exponential_jitter(_FIRST_WAIT, _LONGEST_WAIT),
            retry=retry_if_exception(lambda cause: isinstance(cause, ServerGoneError) and not _nobody_listens(cause)),
            reraise=True,
        )
        try:
            return retrying(self._once, method, path, body, min(timeout, self.settings.timeout_seconds))
        except ServerGoneError as gone:
            # If the server works otherwise, this request is at fault, and no reason to do without the server.
            if gone.status == 500 and self._is_healthy():
                raise ServerRefusedError(str(gone), 500) from gone
            raise

    def _is_healthy(self) -> bool:
        try:
            return self._once("GET", "/health", None, SIGN_OF_LIFE).is_success
        except (ServerGoneError, ServerRefusedError):
            return False

    def _once(self, method: str, path: str, body: dict[str, Any] | None, timeout: float) -> httpx.Response:
        limit = httpx.Timeout(timeout, connect=min(SIGN_OF_LIFE, timeout), pool=None)
        deadline = time.monotonic() + timeout
        try:
            with self._http.stream(method, path, json=body, timeout=limit) as arriving:
                response = _whole(arriving, deadline)
        except httpx.HTTPError as cause:
            raise ServerGoneError(f"{self.address} does not answer: {type(cause).__name__} {cause}".strip()) from cause
        if response.status_code in _BUSY:
            said = f"{self.address} answers {response.status_code}: {response.text[:300]}"
            raise ServerGoneError(said, response.status_code)
        if not response.is_success:  # a redirect, too: it is not followed, as it may lead anywhere
            said = f"{self.address} answers {response.status_code}: {response.text[:300]}"
            raise ServerRefusedError(said, response.status_code)
        return response

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def _nobody_listens(cause: BaseException) -> bool:
    return isinstance(cause.__cause__, httpx.ConnectError)


def _whole(arriving: httpx.Response, deadline: float) -> httpx.Response:
    """Return the answer with its body. Raises httpx.ReadTimeout if the body is not complete at the deadline.

    httpx's own limit is for each read, which a body in many small pieces never meets.
    """
    parts: list[bytes] = []
    for part in arriving.iter_raw():
        if time.monotonic() > deadline:
            raise httpx.ReadTimeout("in the middle of an answer")
        parts.append(part)
    return httpx.Response(arriving.status_code, headers=arriving.headers, content=b"".join(parts))
