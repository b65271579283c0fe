"""Looks from time to time which version an alias names, says when it is another one, and follows it where asked."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from mlops.registry.named import NamedVersion
from mlops.serving.backend import Backend
from mlops.serving.headers import Serving
from rlft.errors import RlftError

logger = logging.getLogger(__name__)

Find = Callable[[], NamedVersion]
Load = Callable[[Backend, NamedVersion, threading.Event], Backend]


class Watch:
    """Keeps `serving` in step with the registry. `find` asks for the version, `load` loads it beside the one served."""

    def __init__(self, serving: Serving, find: Find, load: Load | None, stop: threading.Event) -> None:
        self.serving, self._find, self._load, self._stop = serving, find, load, stop
        self._said: str | None = None  # the version that was last told of
        self._refused: set[str] = set()  # versions that could not be loaded; they are not tried again
        self._leaving: set[asyncio.Task[None]] = set()

    async def run(self, every: float) -> None:
        """Look every so many seconds, until cancelled."""
        while True:
            await asyncio.sleep(every)
            await self.look()

    async def look(self) -> None:
        """Look once. A registry that does not answer is told of once, and what is served goes on."""
        serving = self.serving
        try:
            found = await asyncio.to_thread(self._find)
        except Exception as cause:  # whatever a registry throws must not end a server that answers
            if serving.problem is None:
                logger.warning("the registry does not answer, and version %s is served on: %s", _number(serving), cause)
            serving.problem = str(cause)
            return
        serving.problem, serving.asked = None, datetime.now(UTC)
        if found.version == serving.current.version.number:
            serving.newer = self._said = None
            return
        serving.newer = found.version
        if self._said != found.version:
            self._said = found.version
            logger.warning(
                "%s names version %s now; version %s is served on%s",
                serving.current.version.alias,
                found.version,
                _number(serving),
                " until that is loaded" if self._load else ": start the server again, or with --follow",
            )
        if self._load is not None and found.version not in self._refused:
            await self._switch(found)

    async def _switch(self, found: NamedVersion) -> None:
        """Load a version, send requests to it from now on, and free the one before once its last one is answered."""
        assert self._load is not None
        old = self.serving.current
        try:
            new = await asyncio.to_thread(self._load, old, found, self._stop)
        except RlftError as cause:
            self._refused.add(found.version)
            logger.error(
                "version %s cannot be served, and %s is served on: %s", found.version, _number(self.serving), cause
            )
            return
        self.serving.current, self.serving.newer, self._said = new, None, None
        logger.info("version %s of %s is served", found.version, found.name)
        leaving = asyncio.create_task(self._free(old))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    async def _free(self, old: Backend) -> None:
        try:
            await old.released()
        except RlftError as cause:
            logger.warning("version %s could not be unloaded: %s", old.version.number, cause)


def _number(serving: Serving) -> str:
    return serving.current.version.number
