"""Checkpoints of supervised fine-tuning, from which a stage (warm start or control arm) goes on after it was cut off.

    FOLDER/<identity of the stage>/<sha256 of the file>.safetensors

One file holds the trained weights, the optimizer's state and, as JSON in its header, the steps so far. Its name is its
hash, by which a damaged file is recognised. The caller removes the checkpoints once the result of the stage is stored.

Here stand the budget of a stage and the state that it has reached, too.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import psutil
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from rlft.files import file_hash
from rlft.models.optimizer import MOMENTS, Optimizer

Unit = Literal["steps", "s"]


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds training by a number of optimizer steps or of seconds; its progress is counted in the same unit."""

    amount: float
    unit: Unit

    @classmethod
    def of(cls, steps: int | None, seconds: float | None) -> Budget:
        """Return the budget of whichever is given. Raises ValueError unless exactly one is."""
        if steps is not None and seconds is None:
            return cls(steps, "steps")
        if seconds is not None and steps is None:
            return cls(seconds, "s")
        raise ValueError("give steps or seconds")

    def spent(self, state: SftState) -> float:
        """Return how much of `amount` is used up."""
        return state.steps if self.unit == "steps" else state.seconds


@dataclass(slots=True)
class SftState:
    """Holds what was done so far: seconds of training, and each step's loss, learning rate and gradient norm."""

    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    learning_rates: list[float] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """The number of optimizer steps taken, which is also how many batches were drawn."""
        return len(self.losses)

    def note_step(self, loss: float, learning_rate: float, grad_norm: float) -> None:
        """Append the numbers of one more step."""
        self.losses.append(loss)
        self.learning_rates.append(learning_rate)
        self.grad_norms.append(grad_norm)


logger = logging.getLogger(__name__)
EVERY_SECONDS, SHARE = 60.0, 0.05  # defaults of `Checkpoints`
OLD_SECONDS = 14 * 86_400.0  # after two weeks checkpoints that nobody has gone on with are removed
_ENDING, _HALF = ".safetensors", ".partial"


class Checkpoints:
    """Writes and restores the checkpoints of stages in `folder`.

    It writes at most every `every_seconds`, and so seldom that writing takes at most `share` of the time. `code` (a
    fingerprint) is part of every stage's identity; with `anew` earlier checkpoints of a stage are removed and not used;
    `saved` is called with each state after its checkpoint was written.
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
        """Load the last checkpoint of the stage into weights and optimizer; return its state, or a new one without any.

        `identity` is everything that the result of the steps depends on, as JSON values. Old checkpoints of other
        stages are removed (`remove_old`).
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
        """Write a checkpoint if one is due; return the seconds that this took. A failed write is only a warning."""
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
        """Remove the checkpoints of the restored stage, as when its result is stored."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def remove_old(folder: Path) -> None:
    """Remove the checkpoints of stages that nobody has gone on with for two weeks."""
    for stage in folder.glob("*"):
        if time.time() - max(map(_changed, [stage, *stage.glob("*")])) > OLD_SECONDS:
            shutil.rmtree(stage, ignore_errors=True)


def _remove_halves(folder: Path) -> None:
    """Remove unfinished files of processes that no longer exist; another process may be writing its own."""
    for file in folder.glob(f"*{_HALF}"):
        if not (file.stem.isdecimal() and psutil.pid_exists(int(file.stem))):
            _remove(file)


def _remove(file: Path) -> None:
    """Remove a file if that is possible; a folder of that name stays, for example."""
    with suppress(OSError):
        file.unlink()


def _changed(file: Path) -> float:
    """Return when the file was last changed, in seconds since the epoch."""
    try:
        return file.stat().st_mtime
    except OSError:  # another process has removed it
        return 0.0


def _write(folder: Path, optimizer: Optimizer, state: SftState) -> None:
    """Write a checkpoint whole or not at all, then remove the one before."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{os.getpid()}{_HALF}"
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in _tensors(optimizer)}
    try:
        save_file(tensors, partial, metadata={"state": json.dumps(dataclasses.asdict(state))})
        target = folder / f"{file_hash(partial)}{_ENDING}"
        partial.replace(target)
    except BaseException:  # an interrupt, too
        _remove(partial)  # on a full disk half a checkpoint leaves no room for anything else
        raise
    for other in folder.glob(f"*{_ENDING}"):
        if other != target:
            other.unlink(missing_ok=True)


def _read(file: Path, optimizer: Optimizer) -> SftState | None:
    """Load a checkpoint into the optimizer and its parameters, and return its state.

    Returns `None`, with nothing changed, if it is damaged or does not fit this optimizer.
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
    """Return whether the tensors are all trained weights and, for each that had a gradient, all that AdamW keeps."""
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
    """Yield everything that steps change, by label: parameters, masters, and AdamW's moments and step counters."""
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
