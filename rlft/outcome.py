"""What became of a rollout: the failure that ended it or its scoring, and its fate in training.

Both are stored and shown as text. Such text is made and parsed only here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

FateKind = Literal["trained", "filtered", "errored"]
FATES: tuple[FateKind, ...] = get_args(FateKind)


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong with a rollout or its score that is not the model's doing. As text it is `<where>: <why>`.

    >>> from rlft.outcome import Failure
    >>> failure = Failure("setup", "KeyError: 'text', at capitals.py:12; task.info has: question, answer")
    >>> str(failure)
    "setup: KeyError: 'text', at capitals.py:12; task.info has: question, answer"
    >>> Failure.read("engine: the server is gone").where
    'engine'
    """

    where: str
    """What failed: of a rollout `setup`, `prompt`, `render`, `engine`, `respond`, `state` or `harness`; of a reward
    `prompt`, `compute_reward`, `final_answer`, `weights`, or `rollout`, which was not scored as it failed itself."""
    why: str
    """The error that was raised, or what is wrong."""

    def __str__(self) -> str:
        return f"{self.where}: {self.why}" if self.where else self.why

    @classmethod
    def read(cls, text: str) -> Failure:
        """Parse the text of a failure. `where` is empty if the text names no place."""
        where, colon, why = text.partition(": ")
        return cls(where, why) if colon and where.isidentifier() else cls("", text)

    @property
    def origin(self) -> Failure:
        """The failure of the rollout itself if that is why it has no score, else this failure."""
        return Failure.read(self.why) if self.where == "rollout" else self


@dataclass(frozen=True, slots=True)
class Fate:
    """What training did with a rollout. As text it is `trained`, `trained:kl_only`, `filtered:<why>` or
    `errored:<where>`.
    """

    kind: FateKind
    why: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.why}" if self.why else self.kind

    @classmethod
    def read(cls, text: str) -> Fate:
        """Parse the text of a fate. Raises ValueError for any other text."""
        begin, _, why = text.partition(":")
        for kind in FATES:
            if kind == begin:
                return cls(kind, why)
        raise ValueError(f"{text!r} is no fate of a rollout; a fate begins with one of {', '.join(FATES)}")


def as_text(failure: Failure | None) -> str | None:
    """Return a failure as it is stored and shown; `None` if there is none."""
    return None if failure is None else str(failure)
