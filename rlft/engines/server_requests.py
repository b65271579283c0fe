"""HTTP requests to a server that may be busy, slow or gone, with limits of time and further attempts."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_exponential_jitter

from rlft.environments.workers.threads import LoopThread
from rlft.texts.secrets import hide

_BUSY = {408, 425, 429, 500, 502, 503, 504}  # statuses after which another attempt may succeed
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 5.0  # seconds between attempts
_LONGEST_ASKED = 60.0  # seconds of waiting that a server may ask for
_SHOWN = 300  # characters of an answer that an error shows
SIGN_OF_LIFE = 10.0  # the most seconds for a connection, and for a request that needs no computation


class Limits(Protocol):
    """Says how many requests a server gets at the same time, how long each may take, and how often it is tried."""

    @property
    def concurrency(self) -> int:
        """The most requests at the same time."""
        ...

    @property
    def timeout_seconds(self) -> float:
        """The most seconds of one request."""
        ...

    @property
    def attempts(self) -> int:
        """How often a request is tried."""
        ...


class ServerGoneError(Exception):
    """Raised when a server does not answer, after all attempts.

    `status` is the HTTP status where it answered that it is busy or failed, and 0 without any answer. `wait` are the
    seconds after which it wants to be asked again, 0 if it does not say.
    """

    def __init__(self, message: str, status: int = 0, wait: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.wait = status, wait


class ServerRefusedError(Exception):
    """Raised for an answer that asking again would not change: a refusal, or one that cannot be understood.

    `status` is the HTTP status, or 0 for an answer that cannot be understood.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Requests:
    """Sends requests to the server at `address`.

    Every request is tried `settings.attempts` times, each for at most `settings.timeout_seconds` from its beginning to
    the last byte of the answer, before it raises ServerGoneError. If nothing listens at the address, ServerGoneError is
    raised at once: a server that is started again does not have the policy's weights. Before another attempt it waits
    as long as the server asks for in `Retry-After`, at most a minute. `headers` go with every request; no error shows
    them.
    """

    def __init__(self, address: str, settings: Limits, headers: Mapping[str, str] | None = None) -> None:
        self.address, self.settings = address.rstrip("/"), settings
        limits = httpx.Limits(max_connections=settings.concurrency, max_keepalive_connections=settings.concurrency)
        # In an event loop a request can be ended as a whole: the limits of httpx are for each read, which an answer in
        # many small pieces never meets.
        self._loop = LoopThread()
        self._http = httpx.AsyncClient(base_url=self.address, headers=headers, limits=limits, trust_env=False)

    def send(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        timeout: float = math.inf,
        attempts: int | None = None,
        tried: Callable[[], None] = lambda: None,
    ) -> httpx.Response:
        """Return the answer to a request, whose status is a success; `timeout` and `attempts` may lower the limits.

        `tried` is called before each attempt. Raises ServerGoneError after all attempts, and ServerRefusedError for any
        other status.
        """

        def once() -> httpx.Response:
            tried()
            return self._once(method, path, body, min(timeout, self.settings.timeout_seconds))

        retrying = Retrying(
            stop=stop_after_attempt(attempts or self.settings.attempts),
            wait=_wait,
            retry=retry_if_exception(lambda cause: isinstance(cause, ServerGoneError) and not _nobody_listens(cause)),
            reraise=True,
        )
        try:
            return retrying(once)
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
        asked = self._loop.start(self._ask(method, path, body, timeout))
        try:
            response = asked.result()
        except (httpx.HTTPError, TimeoutError) as cause:
            said = hide(f"{self.address} does not answer: {type(cause).__name__} {cause}".strip())
            raise ServerGoneError(said) from cause
        finally:
            asked.cancel()  # after Ctrl-C; an answer that is there already stays
        if response.is_success:
            return response
        said = f"{self.address} answers {response.status_code}: {shown(response)}"
        if response.status_code in _BUSY:
            raise ServerGoneError(said, response.status_code, _asked_wait(response))
        # A redirect, too: it is not followed, as it may lead anywhere.
        raise ServerRefusedError(said, response.status_code)

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None, timeout: float) -> httpx.Response:
        """Return the whole answer. Raises TimeoutError if it takes more than `timeout` seconds, and as httpx does."""
        limit = httpx.Timeout(None, connect=min(SIGN_OF_LIFE, timeout))
        try:
            async with asyncio.timeout(timeout if math.isfinite(timeout) else None):
                return await self._http.request(method, path, json=body, timeout=limit)
        except TimeoutError:
            raise TimeoutError(f"the answer is not complete after {timeout:g} s") from None

    def close(self) -> None:
        """Close the connections; this can be done twice."""
        if not self._http.is_closed:
            with self._loop:
                self._loop.start(self._http.aclose()).result()


def shown(response: httpx.Response) -> str:
    """Return the beginning of an answer as an error shows it, without the values of secret variables."""
    return hide(response.text).strip()[:_SHOWN] or "nothing"  # hidden before it is cut, as half a key is not found


def _wait(state: RetryCallState) -> float:
    """Return the seconds before the next attempt: they double each time, unless the server asks for more."""
    cause = state.outcome.exception() if state.outcome else None
    asked = cause.wait if isinstance(cause, ServerGoneError) else 0.0
    return max(asked, wait_exponential_jitter(_FIRST_WAIT, _LONGEST_WAIT)(state))


def _asked_wait(response: httpx.Response) -> float:
    """Return the seconds of `Retry-After`, at most `_LONGEST_ASKED`; 0 without one, and for a date."""
    given = response.headers.get("Retry-After", "")
    return min(float(given), _LONGEST_ASKED) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", given) else 0.0


def _nobody_listens(cause: BaseException) -> bool:
    return isinstance(cause.__cause__, httpx.ConnectError)
