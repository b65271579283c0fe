"""An engine that has a version, and how many requests it is answering."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from mlops.serving.version import ServedVersion
from rlft.engines.child import Child

_LOOKS_EVERY = 0.2  # seconds


@dataclass(eq=False)
class Backend:
    """A version at an engine of this machine.

    `address` is the engine's, `model` its own name of the version, and `key` what it asks of a request. `reads_calls`
    says whether it makes tool calls of what the model writes. `release` frees what the version takes: the program, or
    the adapter in a program that goes on with another version.
    """

    version: ServedVersion
    child: Child
    address: str
    model: str
    key: str | None
    reads_calls: bool
    release: Callable[[], None]
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    in_flight: int = 0

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a request to the engine."""
        return {"authorization": f"Bearer {self.key}"} if self.key else {}

    async def released(self) -> None:
        """Wait until the last request is answered, and free the version."""
        while self.in_flight:
            await asyncio.sleep(_LOOKS_EVERY)
        await asyncio.to_thread(self.release)
