"""Asks MLflow for what a run cannot do without, and makes a sentence of whatever it answers instead."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mlflow.exceptions import MlflowException, RestException

from mlops.tracking.reach import QUICK_HTTP, REFUSALS, check_reachable, quick_http
from mlops.tracking.values import redact
from rlft.errors import RlftError, TrackerError
from rlft.shortage import shortage_of

logger = logging.getLogger(__name__)

# These are mistakes of a program and no answers; as a sentence they would be hidden.
_OWN_FAULTS = (TypeError, AttributeError, NameError, AssertionError, ImportError)


@contextmanager
def answering(tracking_uri: str, limits: Mapping[str, str] = QUICK_HTTP) -> Iterator[None]:
    """Let MLflow be asked inside, with short waits. Raises TrackerError, a sentence, for what goes wrong with it."""
    try:
        with quick_http(limits):
            check_reachable(tracking_uri)
            yield
    except RlftError:
        raise
    except Exception as cause:  # whatever MLflow, a driver, the network or an artifact store's library throws
        if shortage_of(cause) is not None or isinstance(cause, _OWN_FAULTS):
            raise
        logger.debug("the tracker failed", exc_info=True)
        line = redact(" ".join(_said(cause).split()), tracking_uri)[:300]
        raise TrackerError(line, where=redact(tracking_uri)) from cause


def _said(cause: Exception) -> str:
    if isinstance(cause, RestException):
        return f"the tracker refused it: {cause.message}"
    if isinstance(cause, MlflowException) and cause.error_code in REFUSALS:  # a database of its own, without a server
        return f"the tracker refused it: {cause.message}"
    if isinstance(cause, MlflowException | OSError):
        # MLflow goes on with the connection's own words, which name Python's objects.
        return f"the tracker did not answer: {str(cause).split(' with exception ')[0]}"
    return f"the tracker's store failed: {type(cause).__name__}: {cause}"
