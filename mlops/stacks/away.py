"""Tells from an error that the ZenML server of a stack does not answer, refuses, or has failed itself.

ZenML's client raises whatever `requests` does, and RuntimeError for what the server says of itself. So an error
counts if it, or what it was raised from, has passed through that client.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator

from rlft.errors import StackAwayError, StackError
from rlft.texts.secrets import hide

_CLIENT = "zenml.zen_stores.rest_zen_store"
_NO_JSON = "Bad response from API"  # what ZenML's client says of another server, such as a proxy


def server_error(error: BaseException, resume: str | None) -> StackError | None:
    """Return the sentence for an error of ZenML's server; `None` if the server has no part in it.

    `resume` is the command that goes on with the run; without one nothing has begun, and the set-up does not work.
    """
    if _CLIENT not in sys.modules:  # without the module this process has asked no server
        return None
    from requests.exceptions import RequestException
    from zenml.config.global_config import GlobalConfiguration
    from zenml.exceptions import AuthorizationException, IllegalOperationError, LogStoreError, MaxConcurrentTasksError

    address = GlobalConfiguration().store_configuration.url
    for each in _chain(error):
        frames = traceback.walk_tb(each.__traceback__)
        if not any(frame.f_globals.get("__name__") == _CLIENT for frame, _ in frames):
            continue
        said = hide(" ".join(str(each).split()))[:200]
        if isinstance(each, AuthorizationException | IllegalOperationError):
            what, fix = f"does not let this user in, or do that: {said}", f"zenml login {address}"
        elif isinstance(each, RequestException):
            what, fix = f"does not answer ({type(each).__name__})", "see that it runs and can be reached"
        # RuntimeError is any answer of 429, 500, 502 and 503.
        elif isinstance(each, RuntimeError | LogStoreError | MaxConcurrentTasksError) or said.startswith(_NO_JSON):
            what, fix = f"has failed: {said}", "look into its log, and for room on its disk"
        else:
            continue
        if resume is None:
            return StackError(f"ZenML's server {what}", where=address, fix=f"{fix}, then start again")
        what = f"ZenML's server {what}. Every step that had finished is kept"
        return StackAwayError(what, where=address, fix=f"{fix}, then `{resume}`")
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what it was raised from, or while."""
    seen = list[BaseException]()
    while error is not None and error not in seen:
        yield error
        seen.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
