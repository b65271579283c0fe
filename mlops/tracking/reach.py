"""Whether an MLflow store answers, found out quickly: waiting for one that is away must not hold up training."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

# MLflow's own defaults wait some four minutes for a server that is down. What a user sets in the environment wins.
QUICK_HTTP = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}


@contextmanager
def quick_http() -> Iterator[None]:
    """Few retries and short timeouts for MLflow's HTTP calls inside; the environment is as before afterwards."""
    ours = {name: value for name, value in QUICK_HTTP.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


def check_reachable(tracking_uri: str) -> None:
    """Raise OSError at once if a database does not answer or cannot be written, which MLflow would retry for minutes.

    Addresses of HTTP servers are not tried: `quick_http` limits the calls to them.
    """
    parts = urlsplit(tracking_uri)
    ports = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
    flavour = parts.scheme.split("+")[0]
    if flavour in ports and parts.hostname:
        socket.create_connection((parts.hostname, parts.port or ports[flavour]), timeout=5).close()
    if flavour == "sqlite" and parts.path.strip("/"):
        folder = Path(parts.path[1:]).parent
        ancestor = next(p for p in (folder, *folder.absolute().parents) if p.exists())
        if not ancestor.is_dir() or not os.access(ancestor, os.W_OK):
            raise ConnectionError(f"no database can be written in {folder}; set another tracking uri")
