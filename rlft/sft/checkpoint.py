"""Checkpoints of supervised fine-tuning: a stage that was cut off goes on from its last one.

    FOLDER/<identity of the stage>/<sha256 of the file>.safetensors

One file holds the trained weights, the optimizer's numbers and, as JSON in its header, the steps so far. Its name is
its hash: a file that was damaged is seen to be. Whoever stores the result of the stage removes them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from rlft.files import file_hash
from rlft.policy.optimizer import MOMENTS, Optimizer
from rlft.sft.state import SftState

logger = logging.getLogger(__name__)
EVERY_SECONDS, SHARE = 60.0, 0.05
OLD_SECONDS = 14 * 86_400.0
_ENDING, _HALF = ".safetensors", ".partial"


class Checkpoints:
    """Written at most every `every_seconds`, and so seldom that writing takes at most `share` of the time.

    `code` is part of every stage's identity, `anew` leaves out what is there from earlier, and `saved` is told each
    state that is safe.
    """

    def __init__(
        self,
        folder: Path,
        *,
        code: str = "",
        anew: bool = False,
        saved: Callable[[SftState], None] | None = None,
        every_seconds: float = EVERY_SECONDS,
        share: float = SHARE,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._root, self._code, self._anew, self._saved = folder, code, anew, saved
        self._every, self._share, self._clock = every_seconds, share, clock
        self._folder: Path | None = None
        self._due = 0.0

    def restore(self, identity: Sequence[object], optimizer: Optimizer) -> SftState:
        """Bring weights and optimizer to the last checkpoint of the stage; a new state where there is none.

        `identity` is all that decides what the steps come to. What is left of stages that nobody went on with goes.
        """
        remove_old(self._root)
        key = hashlib.sha256(json.dumps([self._code, *identity]).encode()).hexdigest()
        self._folder, self._due = self._root / key, self._clock() + self._every
        if self._anew:
            self.remove()
        _remove_halves(self._folder)
        for file in sorted(self._folder.glob(f"*{_ENDING}"), key=_changed, reverse=True):
            state = _read(file, optimizer)
            if state is not None:
                logger.info("going on after step %d of training that was cut off", state.steps)
                return state
            logger.warning("%s is damaged and not used", file)
            _remove(file)
        return SftState()

    def save_if_due(self, optimizer: Optimizer, state: SftState) -> float:
        """Write a checkpoint if it is time for one; returns the seconds that this took. A full disk is a warning."""
        started = self._clock()
        if self._folder is None or started < self._due:
            return 0.0
        try:
            _write(self._folder, optimizer, state)
        except (OSError, SafetensorError) as cause:
            logger.warning("no checkpoint could be written to %s; training goes on: %s", self._folder, cause)
        else:
            if self._saved is not None:
                self._saved(state)
        ended = self._clock()
        self._due = ended + max(self._every, (ended - started) / self._share)
        return ended - started

    def remove(self) -> None:
        """The result of the stage is stored."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def remove_old(folder: Path) -> None:
    """Remove the checkpoints of stages that nobody has gone on with for two weeks."""
    for stage in folder.glob("*"):
        if time.time() - max(map(_changed, [stage, *stage.glob("*")])) > OLD_SECONDS:
            shutil.rmtree(stage, ignore_errors=True)


def _remove_halves(folder: Path) -> None:
    """Files that processes which are no more have begun to write."""
    for file in folder.glob(f"*{_HALF}"):
        if not (file.stem.isdecimal() and psutil.pid_exists(int(file.stem))):
            _remove(file)


def _remove(file: Path) -> None:
    """What cannot be removed, such as a folder of that name, stays."""
    with suppress(OSError):
        file.unlink()


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:  # another process has removed it
        return 0.0


def _write(folder: Path, optimizer: Optimizer, state: SftState) -> None:
    """Whole or not at all; the one before goes when the new one is there."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{os.getpid()}{_HALF}"
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in _tensors(optimizer)}
    try:
        save_file(tensors, partial, metadata={"state": json.dumps(dataclasses.asdict(state))})
        target = folder / f"{file_hash(partial)}{_ENDING}"
        partial.replace(target)
    except BaseException:
        _remove(partial)  # on a full disk half a checkpoint leaves no room for anything else
        raise
    for other in folder.glob(f"*{_ENDING}"):
        if other != target:
            other.unlink(missing_ok=True)


def _read(file: Path, optimizer: Optimizer) -> SftState | None:
    """Load a checkpoint into the optimizer and its parameters.

    `None`, with nothing changed, where it is damaged or is none of this training.
    """
    try:
        if file_hash(file) != file.stem:
            return None
        with safe_open(file, framework="pt") as content:
            state = SftState(**json.loads((content.metadata() or {})["state"]))
            tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError, TypeError, KeyError):
        return None
    if not _fits(tensors, optimizer):
        return None
    _load(tensors, optimizer)
    return state


def _fits(tensors: dict[str, Tensor], optimizer: Optimizer) -> bool:
    """Whether it is every weight that is trained and, of each that had a gradient, all that AdamW keeps."""
    wanted: dict[str, torch.Size] = {}
    for name, master in optimizer.masters.items():
        wanted[f"parameter/{name}"] = master.shape
        if master is not optimizer.parameters[name]:
            wanted[f"master/{name}"] = master.shape
        kept = {f"step/{name}": torch.Size(), **{f"{moment}/{name}": master.shape for moment in MOMENTS}}
        if kept.keys() & tensors.keys():
            wanted |= kept
    return {label: tensor.shape for label, tensor in tensors.items()} == wanted


def _tensors(optimizer: Optimizer) -> Iterator[tuple[str, Tensor]]:
    """Everything that steps change: parameters, masters, and all that AdamW keeps of each, its counters too."""
    for name, master in optimizer.masters.items():
        yield f"parameter/{name}", optimizer.parameters[name]
        if master is not optimizer.parameters[name]:
            yield f"master/{name}", master
        for key, value in optimizer.adamw.state.get(master, {}).items():
            yield f"{key}/{name}", value


@torch.no_grad()
def _load(tensors: dict[str, Tensor], optimizer: Optimizer) -> None:
    for label, tensor in tensors.items():
        kind, _, name = label.partition("/")
        master = optimizer.masters[name]
        if kind == "parameter":
            optimizer.parameters[name].copy_(tensor)
        elif kind == "master":
            master.copy_(tensor)
        else:
            optimizer.adamw.state[master][kind] = tensor.to(master.device)
