"""What errors about Ray say alike."""

from __future__ import annotations

RESUME = "`rlft resume` goes on with the run from its last finished round"
GONE = "has died, or its machine cannot be reached"
_MOST = 300


def counted(count: int, name: str) -> str:
    """Return a number of things: 1 engine, 2 engines."""
    return f"{count} {name}{'' if count == 1 else 's'}"


def said_by(error: BaseException) -> str:
    """Return what an error says in one line: its first one, or the last one of a traceback, which Ray hands on as text.

    It has 300 characters at most, and is empty if the error says nothing.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return ""
    is_trace = any(line.startswith("Traceback (most recent call last)") for line in lines)
    return lines[-1 if is_trace else 0][:_MOST]
