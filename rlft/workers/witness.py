"""A note on disk of the calls of an environment's code that run in this process: it outlasts the end of the process.

A crash in native code and `os._exit` end a process at once: nothing can be caught or written then. So the note is
written before each call, into a file that is mapped into memory, which takes microseconds.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

logger = logging.getLogger(__name__)
_SLOTS, _SIZE = 256, 512  # calls that can be noted at the same time, and bytes of each; the first slot is the heading
_exit = os._exit
_now: ContextVar[Noted | None] = ContextVar("now", default=None)


@dataclass(frozen=True, slots=True)
class Noted:
    """A call of an environment's code: the method or tool, and the rollout and task that it was for.

    `exit_call` is its call of `os._exit` and where that stands, if there was one.
    """

    method: str
    rollout_id: str
    task_id: str
    exit_call: str | None = None

    def __str__(self) -> str:
        called = "" if self.exit_call is None else f", which called {self.exit_call}"
        return f"{self.method} ran for rollout {self.rollout_id} of task {self.task_id}{called}"

    @property
    def setting(self) -> str:
        """The setting that lets a worker process make such calls."""
        is_reward = self.method in ("compute_reward", "final_answer")
        return "reward.isolation" if is_reward else "harness.isolation"


class _Witness:
    """The mapped file, and which of its slots are free."""

    def __init__(self, path: Path, heading: str) -> None:
        self._map = _mapped(path)
        self._free = list(range(_SLOTS - 1, 0, -1))  # `pop` and `append` of a list can be called in any thread
        self._taken: dict[int, Noted] = {}
        self._write(0, heading)

    def take(self, noted: Noted) -> int:
        """Note a call in a free slot, and return the slot; 0 if there is none."""
        slot = self._free.pop() if self._free else 0
        if slot:
            self._taken[slot] = noted
            self._note(slot, noted)
        return slot

    def give_back(self, slot: int) -> None:
        """Note that the call of a slot is over."""
        if slot:
            self._map[slot * _SIZE] = 0
            self._taken.pop(slot, None)
            self._free.append(slot)

    def exits(self, noted: Noted) -> None:
        """Leave only this call in the file, as the one that ends the process."""
        for slot in list(self._taken):
            self._map[slot * _SIZE] = 0
        self._note(1, noted)

    def running(self) -> Noted | None:
        """Return a call that runs at this moment, the one of this thread if it is known; `None` if there is none."""
        now, taken = _now.get(), list(self._taken.values())
        # The context may be one in which a call of an earlier run was left behind.
        return now if any(now is each for each in taken) else next(iter(taken), None)

    def close(self) -> None:
        self._map.close()

    def _note(self, slot: int, noted: Noted) -> None:
        called = noted.exit_call and noted.exit_call[:100]
        self._write(slot, json.dumps([noted.method[:80], noted.rollout_id[:160], noted.task_id[:100], called]))

    def _write(self, slot: int, text: str) -> None:
        packed = text.encode()[: _SIZE - 1] + b"\0"
        self._map[slot * _SIZE : slot * _SIZE + len(packed)] = packed


def _mapped(path: Path) -> mmap.mmap:
    """Make the file and map it into memory; where it cannot be made, the calls are noted in memory alone."""
    try:
        with path.open("w+b") as file:
            # With a file of holes, the first note that a full disk has no room for would end the process by SIGBUS.
            os.posix_fallocate(file.fileno(), 0, _SLOTS * _SIZE)
            return mmap.mmap(file.fileno(), 0)
    except OSError as cause:
        logger.warning("should this process end without a word, it will not be known which call it was: %s", cause)
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return mmap.mmap(-1, _SLOTS * _SIZE)


_witness: _Witness | None = None  # one for the process, as the end of a process is one


@contextmanager
def noted(method: str, rollout_id: str, task_id: str) -> Iterator[None]:
    """Wrap a call of an environment's code, so that it is known if the process ends in it."""
    if (witness := _witness) is None:
        yield
        return
    call = Noted(method, rollout_id, task_id)
    slot, token = witness.take(call), _now.set(call)
    try:
        yield
    finally:
        with suppress(ValueError):  # code that was left behind ends later, elsewhere, or after the run
            _now.reset(token)
            witness.give_back(slot)


@contextmanager
def witnessed(path: Path, heading: dict[str, Any], say: Callable[[Noted], None]) -> Iterator[None]:
    """Keep the note at `path`, beginning with a heading, until this block ends; then remove it.

    In the block `os._exit`, called by the environment's code, ends the process with exit code 1 and not with that of a
    run that has finished; `say` is called before, with the call that did it. Where something stands in the place of
    `os._exit` already, it is left there: it tells of the end itself, and asks `note_exit` for the call.
    """
    global _witness
    before, exit_now, process = _witness, os._exit, os.getpid()
    witness = _witness = _Witness(path, json.dumps(heading))

    def leave(status: int) -> None:
        if os.getpid() == process and (call := note_exit(exit_call(status, sys._getframe(1)))) is not None:
            try:
                say(call)
            finally:
                exit_now(1)
        exit_now(status)

    if exit_now is _exit:
        os._exit = leave  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit, _witness = exit_now, before
        path.unlink(missing_ok=True)
        witness.close()


def exit_call(status: int, caller: FrameType) -> str:
    """Return a call of `os._exit` as a text that names its line."""
    return f"os._exit({status}) at {Path(caller.f_code.co_filename).name}:{caller.f_lineno}"


def note_exit(called: str) -> Noted | None:
    """Note that the call of the environment's code that runs has ended the process by this call of `os._exit`.

    Returns that call with it; `None` if none runs.
    """
    if (witness := _witness) is None or (call := witness.running()) is None:
        return None
    ending = replace(call, exit_call=called)
    witness.exits(ending)
    return ending


def read_witness(path: Path) -> tuple[dict[str, Any], list[Noted]]:
    """Return the heading of a note that a process has left, and the calls that ran when it ended.

    Raises OSError if it cannot be read, and ValueError if it is none.
    """
    content = path.read_bytes()
    slots = [content[place : place + _SIZE].split(b"\0", 1)[0] for place in range(0, len(content), _SIZE)]
    if not slots:
        raise ValueError("it is empty")
    return json.loads(slots[0]), [Noted(*json.loads(slot)) for slot in slots[1:] if slot]
