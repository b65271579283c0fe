"""Whether an MLflow store answers, found out quickly: waiting for one that is away must not hold up training."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

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
