"""What became of a rollout: what went wrong with it and where, and what training made of it.

Both are stored and shown as text; only here is such text made and read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
    """What was raised, or what is wrong."""

    def __str__(self) -> str:
        return f"{self.where}: {self.why}" if self.where else self.why

    @classmethod
    def read(cls, text: str) -> Failure:
        """The failure that a text stands for; text that names no place has an empty `where`."""
        where, colon, why = text.partition(": ")
        return cls(where, why) if colon and where.isidentifier() else cls("", text)

    @property
    def origin(self) -> Failure:
        """The rollout's own failure where that is why there is no score, else this one."""
        return Failure.read(self.why) if self.where == "rollout" else self


@dataclass(frozen=True, slots=True)
class Fate:
    """What training made of a rollout: `trained`, `trained:kl_only`, `filtered:<why>` or `errored:<where>`."""

    kind: Literal["trained", "filtered", "errored"]
    why: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.why}" if self.why else self.kind

    @classmethod
    def read(cls, text: str) -> Fate:
        """The fate that a text stands for. Raises ValueError for text that is none."""
        kind, _, why = text.partition(":")
        if kind not in ("trained", "filtered", "errored"):
            raise ValueError(f"{text!r} is no fate of a rollout; fates begin with trained, filtered or errored")
        return cls(kind, why)


def as_text(failure: Failure | None) -> str | None:
    """As it is stored and shown."""
    return None if failure is None else str(failure)
