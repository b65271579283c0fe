"""What a criterion asks a judge: the protocol between specifications and the judges that answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Question:
    """A question about an attempt, in messages that are filled in already; what the attempt says in them is data.

    A judge answers with a number from `least` to `most`, or with one of `labels` if there are any. `model` names the
    one that the grader was written for; empty means the judge's own.
    """

    messages: Sequence[tuple[str, str]]
    """(role, text), with roles `system`, `user` and `assistant`."""
    attempt: str
    """What the attempt says, once more by itself, so that a judge can quote it."""
    least: float = 0.0
    most: float = 1.0
    labels: tuple[str, ...] = ()
    model: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A judge's answer: a number, or a label if the question has labels, and its reason."""

    score: float | None = None
    label: str | None = None
    why: str = ""


class Judge(Protocol):
    """Answers questions about attempts. What fails, refuses or cannot be read raises, and is never a 0."""

    async def ask(self, question: Question) -> Answer:
        """Return the answer to a question. Raises where there is none."""
        ...
