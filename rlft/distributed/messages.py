"""What the process of a run and the one that uses Ray, the `director`, say to each other."""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from rlft.engines.ordered import Order
from rlft.training.job import Job

_PICKLER: Any = ForkingPickler  # by which the link sends, too; type checkers take its `loads` for a method


@dataclass(frozen=True, slots=True)
class Train:
    """A request to train a round; its answer is a `TrainReport`. All machines see the same files in `folder`."""

    job: Job
    folder: Path


@dataclass(frozen=True, slots=True)
class StartEngines:
    """A request to start servers, each `within` so many seconds; its answer is a list of `Served`."""

    order: Order
    within: float
    folder: Path


Request = Train | StartEngines


@dataclass(frozen=True, slots=True)
class Pids:
    """The numbers of the trainers' processes; that of one on another machine is 0."""

    numbers: list[int]


@dataclass(frozen=True, slots=True)
class Advance:
    """How far the trainers are, as `rlft.progress.Progress` takes it."""

    done: float
    total: float | None
    what: str
    tokens: int | None


@dataclass(frozen=True, slots=True)
class Alive:
    """Says only that the director is."""


@dataclass(frozen=True, slots=True)
class Done:
    """The answer to a request."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """The end of a request by an error: as bytes, which the other process may not be able to read, and in words."""

    pickled: bytes
    text: str
    notes: tuple[str, ...] = ()

    @classmethod
    def by(cls, error: Exception) -> Failed:
        """Return the message about an error."""
        text, notes = f"{type(error).__name__}: {error}", tuple(getattr(error, "__notes__", ()))
        try:
            return cls(bytes(_PICKLER.dumps(error)), text, notes)
        except Exception:  # whatever its own class raises
            return cls(b"", text, notes)

    def error(self) -> Exception:
        """Return the error itself, or a RuntimeError with its text where it cannot be made here."""
        try:
            made = _PICKLER.loads(self.pickled)  # from a process of this run, as all that comes over the link
        except Exception:  # its class is not here, or takes other arguments
            made = None
        if isinstance(made, Exception):
            return made
        made = RuntimeError(self.text)
        for note in self.notes:
            made.add_note(note)
        return made


Heard = Pids | Advance | Alive
"""What comes before the answer."""
Said = Heard | Done | Failed
