"""What judges have answered, kept by its content, where resumed and later runs find it.

A file holds one vote. Its name is the hash of all that the vote depends on, so that nothing has to be brought up to
date: what is asked differently has another name.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlft.files import write_file
from rlft.texts.secrets import hide

logger = logging.getLogger(__name__)
VARIABLE = "RLFT_JUDGES"
"""The environment variable that names the folder in which processes of a home keep what judges said."""


def judges_folder() -> Path | None:
    """Return the folder in which this process keeps what judges said; `None` outside of a home."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


class Answers:
    """Keeps texts by key in a folder, which several processes may use at once; without one in memory.

    A text that shows the value of a secret variable, or cannot be written, stays in memory.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._known: dict[str, str] = {}
        self._locks: dict[str, threading.Lock] = {}

    def alone(self, key: str) -> threading.Lock:
        """Return what lets one thread at a time ask for this key, so that nothing is asked twice at the same time."""
        return self._locks.setdefault(key, threading.Lock())

    def get(self, key: str) -> str | None:
        """Return the text of a key, or `None`."""
        if key in self._known or self._folder is None or not (file := _file(self._folder, key)).exists():
            return self._known.get(key)
        return json.loads(file.read_text(encoding="utf-8"))

    def put(self, key: str, text: str) -> None:
        """Keep a text."""
        if self._folder is not None and hide(text) == text:
            try:
                write_file(_file(self._folder, key), json.dumps(text))
                return
            except OSError as cause:
                logger.warning("what a judge answers is not kept, so that it is asked again in later runs: %s", cause)
        self._known[key] = text


def key_of(content: Mapping[str, Any]) -> str:
    """Return the sha256 of JSON as 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _file(folder: Path, key: str) -> Path:
    return folder / "answers" / key[:2] / f"{key}.json"
