"""The messages between this process and a worker: JSON, each behind its length. Nothing is ever unpickled."""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

LIMIT = 256 << 20
"""Most bytes of a message from a worker: the run's own process must hold it."""
BROKEN = 70
"""The exit code of a worker that can neither take calls nor answer them any more."""
_LENGTH = struct.Struct(">Q")


def pack(message: dict[str, Any]) -> bytes:
    """Return a message as bytes. Raises TypeError or ValueError for what is not JSON."""
    body = json.dumps(message).encode()  # in ASCII: a model's text need not be valid Unicode
    return _LENGTH.pack(len(body)) + body


def read(file: BinaryIO, limit: float = float("inf")) -> dict[str, Any] | None:
    """Return the next message; `None` where there are no more, or the last one was cut off.

    Raises ValueError for one of more bytes than `limit`, before it is read, and for what is not JSON.
    """
    head = file.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > limit:
        raise ValueError(f"a message of {length >> 20} MiB is too long")
    body = file.read(length)
    return json.loads(body) if len(body) == length else None
