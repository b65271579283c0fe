"""Tells from an error that the ZenML server of a stack does not answer, refuses, or has failed itself.

ZenML's client raises whatever `requests` does, and RuntimeError for what the server says of itself. So an error
counts if it, or what it was raised from, has passed through that client.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator

from rlft.errors import StackAwayError, StackError
from rlft.secrets import hide

_CLIENT = "zenml.zen_stores.rest_zen_store"
_MOST = 20  # errors of a chain that are looked at
_SHOWN = 200  # characters of what a server says
_NO_JSON = "Bad response from API"  # what ZenML's client says of another server, such as a proxy
# What ZenML says, with or without a server, of a run that was marked as failed while its process went on.
_ENDED = ("The status of finished steps can not be updated", "because the run is in a FAILED state")
_LOOK = "look into its log, and for room on its disk"
_KEPT = "Every step that had finished is kept"


def server_error(error: BaseException, resume: str | None) -> StackError | None:
    """Return the sentence for an error of ZenML's server; `None` if the server has no part in it.

    `resume` is the command that goes on with the run; without one nothing has begun, and the set-up does not work.
    """
    if was_ended(error) or (fault := _fault(error)) is None:
        return None
    what, way_out = fault
    if resume is None:
        return StackError(what, where=_address(), fix=f"{way_out}, then start again")
    return StackAwayError(f"{what}. {_KEPT}", where=_address(), fix=f"{way_out}, then `{resume}`")


def was_ended(error: BaseException) -> bool:
    """Return whether an error says that somebody else has ended the run, whom this process did not ask for it."""
    return any(any(words in str(each) for words in _ENDED) for each in _chain(error))


def _fault(error: BaseException) -> tuple[str, str] | None:
    """Return what the server has done, and what to do about that."""
    if _CLIENT not in sys.modules:  # this process has asked no server
        return None
    from requests.exceptions import RequestException
    from zenml.exceptions import (
        AuthorizationException,
        IllegalOperationError,
        LogStoreError,
        MaxConcurrentTasksError,
    )

    for each in _chain(error):
        if not _has_asked(each):
            continue
        said = hide(" ".join(str(each).split()))[:_SHOWN]
        match each:
            case AuthorizationException() | IllegalOperationError():
                return f"ZenML's server does not let this user in, or do that: {said}", f"zenml login {_address()}"
            case RequestException():
                return f"ZenML's server does not answer ({type(each).__name__})", "see that it runs and can be reached"
            case RuntimeError() | LogStoreError() | MaxConcurrentTasksError():  # any answer of 429, 500, 502 and 503
                return f"ZenML's server has failed: {said}", _LOOK
            case ValueError() if said.startswith(_NO_JSON):
                return f"ZenML's server has failed: {said}", _LOOK
    return None


def _address() -> str:
    from zenml.config.global_config import GlobalConfiguration

    return GlobalConfiguration().store_configuration.url


def _has_asked(error: BaseException) -> bool:
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__") == _CLIENT for frame, _ in frames)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it was raised from, or while."""
    each: BaseException | None = error
    for _ in range(_MOST):
        if each is None:
            return
        yield each
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
