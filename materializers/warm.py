"""The newest tables of this process, kept in memory: an artifact never changes, so reading it again gives the same.

A round's rollouts are read by scoring and by training, and the tasks by every step. In a process of its own a step
finds nothing here and reads the file. This is global state on purpose (docs/decisions/0002-artifacts.md).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

MAX_TABLES = 4


class WarmTables:
    """Holds loaded objects by the file they come from, at most `limit` of them."""

    def __init__(self, limit: int = MAX_TABLES) -> None:
        self._limit = limit
        self._objects: OrderedDict[str, Any] = OrderedDict()  # the least recently used first

    def get(self, file: str) -> Any:
        """Return the object of this file, or `None`."""
        if file in self._objects:
            self._objects.move_to_end(file)
        return self._objects.get(file)

    def put(self, file: str, value: Any) -> None:
        """Keep an object, and drop the least recently used one if there are too many."""
        self._objects[file] = value
        self._objects.move_to_end(file)
        while len(self._objects) > self._limit:
            self._objects.popitem(last=False)


WARM = WarmTables()
