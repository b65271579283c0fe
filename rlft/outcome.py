"""What became of a rollout: the failure that ended it or its scoring, and its fate in training.

Both are stored and shown as text. Such text is made and parsed only here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

FateKind = Literal["trained", "filtered", "errored"]
FATES: tuple[FateKind, ...] = get_args(FateKind)
NO_SCORE = "reward"
"""Where an attempt is errored that was sampled as it should be, and whose score failed."""
WAY_OUT = "; what to do: "
"""Separates, in a text, what is wrong from what to do about it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong with a rollout or its score that is not the model's doing.

    As text it is `<where>: <why>`, and `; what to do: <fix>` if it has a way out.

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
    fix: str = ""
    """What to do about it, if that is known."""
    raised: str = field(default="", compare=False)
    """The type of the error that was raised, if there was one. It is not in the text, nor is `place`."""
    place: str = field(default="", compare=False)
    """The line of the environment's own code that raised it, such as `capitals.py:12`."""

    def __str__(self) -> str:
        return (f"{self.where}: " if self.where else "") + self.why + (f"{WAY_OUT}{self.fix}" if self.fix else "")

    @classmethod
    def read(cls, text: str) -> Failure:
        """Parse the text of a failure. `where` is empty if the text names no place."""
        where, colon, rest = text.partition(": ")
        if not colon or not where.isidentifier():
            where, rest = "", text
        why, _, fix = rest.partition(WAY_OUT)
        return cls(where, why, fix) if fix else cls(where, rest)

    @property
    def origin(self) -> Failure:
        """The failure of the rollout itself if that is why it has no score, else this failure."""
        if self.where != "rollout":
            return self
        return replace(Failure.read(self.why), raised=self.raised, place=self.place)

    @property
    def kind(self) -> tuple[str, str, str]:
        """Where it failed, the type of error and its line: failures that agree in these are counted and told as one."""
        # A table keeps the text alone, and some failures are no error that was raised. They count by their text as far
        # as its first colon, which is the type of an error, or a sentence that seldom has numbers. This may take two
        # lines of code for one; the whole text would make nearly every task a kind of its own.
        origin = self.origin
        return origin.where, origin.raised or origin.why.partition(":")[0], origin.place


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
