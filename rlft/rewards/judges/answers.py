"""What judges have answered, kept by its content: in memory, and on disk, where resumed and later runs find it.

A file holds one vote. Its name is the hash of all that the vote depends on, so that nothing has to be brought up to
date: what is asked differently has another name.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlft.files import write_file
from rlft.texts.secrets import hide

logger = logging.getLogger(__name__)
VARIABLE = "RLFT_JUDGES"
"""The environment variable that names the folder in which processes of a home keep what judges said."""
MOST = 100_000  # votes in memory, and files on disk
_KEPT = 0.9  # of them that stay when there are too many


def judges_folder() -> Path | None:
    """Return the folder in which this process keeps what judges said; `None` outside of a home."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


class Answers:
    """Keeps texts by key, the newest `most` of them; without a folder in memory alone.

    Several processes may use a folder at once: a file is there completely or not at all. What cannot be read is as if
    it were not there, and a folder that cannot be written to is told once.
    """

    def __init__(self, folder: Path | None, *, most: int = MOST) -> None:
        self.folder, self._most = folder, most
        self._known: OrderedDict[str, str] = OrderedDict()
        self._locks: dict[str, tuple[threading.Lock, int]] = {}
        self._lock = threading.Lock()
        self._files: int | None = None  # on disk, once they were counted

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Let one thread at a time look for this key and add it, so that nothing is asked twice at the same time."""
        with self._lock:
            lock, users = self._locks.get(key, (threading.Lock(), 0))
            self._locks[key] = lock, users + 1
        try:
            with lock:
                yield
        finally:
            with self._lock:
                _, users = self._locks.pop(key)
                if users > 1:
                    self._locks[key] = lock, users - 1

    def get(self, key: str) -> str | None:
        """Return the text of a key, or `None`."""
        with self._lock:
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return known
        if self.folder is None:
            return None
        try:
            text = json.loads(_file(self.folder, key).read_text(encoding="utf-8"))["text"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):  # it is not there, or it is damaged
            return None
        if not isinstance(text, str):
            return None
        self._remember(key, text)
        return text

    def put(self, key: str, text: str) -> None:
        """Keep a text, on disk only if it shows the value of no secret variable."""
        self._remember(key, text)
        if self.folder is None or hide(text) != text:
            return
        try:
            is_new = not _file(self.folder, key).exists()
            write_file(_file(self.folder, key), json.dumps({"text": text}))
            self._count(self.folder, is_new=is_new)
        except OSError as cause:
            logger.warning("what judges answer is not kept, so that it is asked again in later runs: %s", cause)
            self.folder = None

    def _remember(self, key: str, text: str) -> None:
        with self._lock:
            self._known[key] = text
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def _count(self, folder: Path, *, is_new: bool) -> None:
        """Count the files, and remove the oldest where there are too many."""
        with self._lock:
            self._files = len(_all(folder)) if self._files is None else self._files + is_new
            if self._files > self._most:
                self._files = _thin_out(folder, int(self._most * _KEPT))


def key_of(content: Mapping[str, Any]) -> str:
    """Return the sha256 of JSON as 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _file(folder: Path, key: str) -> Path:
    return folder / "answers" / key[:2] / f"{key}.json"


def _all(folder: Path) -> list[Path]:
    return list((folder / "answers").glob("??/*.json"))


def _thin_out(folder: Path, kept: int) -> int:
    """Remove the oldest files, and return how many stay. Another process may remove some of them meanwhile."""
    dated = list[tuple[float, Path]]()
    for file in _all(folder):
        try:
            dated.append((file.stat().st_mtime, file))
        except FileNotFoundError:
            logger.debug("%s is gone", file)
    dated.sort(reverse=True)
    for _, file in dated[kept:]:
        file.unlink(missing_ok=True)
    return min(kept, len(dated))
