"""Where MLflow is, its credentials, whether it answers, and a sentence of whatever it answers instead.

Steps and runs are given an address or the word `home`, which stays the same in cache keys when the home is moved.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rlft.errors import RlftError, TrackerError, shortage_of

logger = logging.getLogger(__name__)

HOME = "home"
VARIABLE = "RLFT_TRACKING_URI"
CREDENTIALS = {
    "tracking_username": "MLFLOW_TRACKING_USERNAME",
    "tracking_password": "MLFLOW_TRACKING_PASSWORD",
    "tracking_token": "MLFLOW_TRACKING_TOKEN",
}
# ZenML takes a tracker at an http address only with a way to log in. A server that asks for none gets this one in
# ZenML's registry; it is never sent.
NO_AUTHENTICATION = "no-authentication"


def tracking_address(uri: str) -> str:
    """Return the address `uri`; for `home` that of the folder in which this process keeps its runs.

    For another address than `home` the credentials of the active stack's tracker are put into the environment: a pod on
    which the stack runs a pipeline or a step does not have those of the machine from which it was started.
    """
    if uri == HOME:
        return os.environ[VARIABLE]
    from zenml.client import Client

    tracker = Client().active_stack.experiment_tracker
    if tracker is not None and tracker.flavor == "mlflow":
        use_credentials(tracker)
    return uri


def use_credentials(tracker: Any) -> None:
    """Put the credentials of a stack's MLflow tracker into the environment, where MLflow reads them."""
    for setting, variable in CREDENTIALS.items():
        value = getattr(tracker.config, setting, None)
        if value and value != NO_AUTHENTICATION:
            os.environ[variable] = str(value)


PROBE_SECONDS = 5.0
# MLflow's own defaults wait some four minutes for a server that is down, and sixteen for one that hangs. What a user
# sets in the environment wins.
QUICK_HTTP = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
# For calls that move whole models: a server answers when it has stored what it was sent.
PATIENT_HTTP = QUICK_HTTP | {"MLFLOW_HTTP_REQUEST_TIMEOUT": "60"}

# Errors by which the store says that the entry itself is wrong; others mean that the store is not there.
REFUSALS = {"INVALID_PARAMETER_VALUE", "BAD_REQUEST", "RESOURCE_ALREADY_EXISTS", "PERMISSION_DENIED"}


@contextmanager
def quick_http(limits: Mapping[str, str] = QUICK_HTTP) -> Iterator[None]:
    """Few retries and short timeouts for MLflow's HTTP calls inside; the environment is as before afterwards."""
    ours = {name: value for name, value in limits.items() if name not in os.environ}
    os.environ.update(ours)
    # A line for every retry would tell what is told once, as a sentence.
    retries = logging.getLogger("urllib3.connectionpool")
    level = retries.level
    retries.setLevel(logging.ERROR)
    try:
        yield
    finally:
        retries.setLevel(level)
        for name in ours:
            os.environ.pop(name, None)


@contextmanager
def as_default(tracking_uri: str) -> Iterator[None]:
    """Let MLflow's calls that take no address of their own use this one inside."""
    import mlflow  # here and not above: `rlft --help` need not wait for it

    before = mlflow.get_tracking_uri() if mlflow.is_tracking_uri_set() else None
    mlflow.set_tracking_uri(tracking_uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(before)  # type: ignore[reportArgumentType]


def check_reachable(tracking_uri: str) -> None:
    """Raise OSError within seconds if a store does not answer or cannot be written, which MLflow retries for minutes.

    Whatever an HTTP server answers, it is there.
    """
    parts = urlsplit(tracking_uri)
    ports = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
    flavour = parts.scheme.split("+")[0]
    if flavour in ("http", "https"):
        _check_server(tracking_uri)
    if flavour in ports and parts.hostname:
        socket.create_connection((parts.hostname, parts.port or ports[flavour]), timeout=PROBE_SECONDS).close()
    if flavour == "sqlite" and parts.path.strip("/"):
        folder = Path(parts.path[1:]).parent
        ancestor = next(p for p in (folder, *folder.absolute().parents) if p.exists())
        if not ancestor.is_dir() or not os.access(ancestor, os.W_OK):
            raise ConnectionError(f"no database can be written in {folder}; set another tracking uri")


def _check_server(address: str) -> None:
    import requests  # here and not above: `rlft --help` need not wait for it

    try:
        requests.get(f"{address.rstrip('/')}/health", timeout=PROBE_SECONDS, allow_redirects=False, stream=True).close()
    except requests.exceptions.SSLError:
        return  # there is a server; whether its certificate will do is for MLflow and its settings to say
    except requests.exceptions.Timeout as cause:
        raise TimeoutError(f"nothing within {PROBE_SECONDS:g} s") from cause
    except requests.exceptions.ConnectionError as cause:
        raise ConnectionError("nobody listens there, or the connection was cut") from cause


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
        from mlops.tracking.values import redact

        logger.debug("the tracker failed", exc_info=True)
        line = redact(" ".join(_said(cause).split()), tracking_uri)[:300]
        raise TrackerError(line, where=redact(tracking_uri)) from cause


def _said(cause: Exception) -> str:
    from mlflow.exceptions import MlflowException, RestException  # here, as whoever has an address alone needs none

    if isinstance(cause, RestException):
        return f"the tracker refused it: {cause.message}"
    if isinstance(cause, MlflowException) and cause.error_code in REFUSALS:  # a database of its own, without a server
        return f"the tracker refused it: {cause.message}"
    if isinstance(cause, MlflowException | OSError):
        # MLflow goes on with the connection's own words, which name Python's objects.
        return f"the tracker did not answer: {str(cause).split(' with exception ')[0]}"
    return f"the tracker's store failed: {type(cause).__name__}: {cause}"


def pages(ask: Callable[..., Any]) -> Iterator[Any]:
    """Yield what all pages of an answer of MLflow hold; `ask` takes the `page_token` of each."""
    token = None
    while token != "":
        page = ask(page_token=token)
        yield from page
        token = page.token or ""
