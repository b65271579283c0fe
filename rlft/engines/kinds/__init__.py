"""The kinds of engines that are shipped, by name: each is one class in one file, with what it can do and needs.

Every class with a `name` in a file of this room can be chosen by `rollout.engine`. The config imports the files, and is
checked without torch: so they import what samples where they make it.
"""

from rlft.engines.kinds.base import EngineKind
from rlft.types.declared import shipped

__all__ = ["ENGINES", "EngineKind"]

ENGINES: dict[str, type[EngineKind]] = shipped(__name__, EngineKind)
