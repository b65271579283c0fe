"""The base class of graders: what each says of itself, and how it scores an attempt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from rlft.specification.attempt import Attempt, Verdict
from rlft.specification.piece import Piece

FIELDS = "docs/guide/graders.md"
"""The page with all fields of specifications and graders."""


class Grader(Piece):
    """Decides about one attempt. Scores lie in [0, 1] unless a grader says otherwise."""

    bounded: ClassVar[bool] = True
    """Whether scores lie in [0, 1] by themselves."""
    libraries: ClassVar[tuple[str, ...]] = ()
    """The distributions whose versions may change its scores."""
    needs_sandbox: ClassVar[bool] = False
    """Whether it runs a program."""

    def says(self) -> str:
        """Return what is checked, in words that go on from “It is checked whether …”."""
        raise NotImplementedError

    async def grade(self, attempt: Attempt) -> Verdict:
        """Score an attempt. Raises `rlft.specification.attempt.Unread` where it lacks what is looked at."""
        raise NotImplementedError

    def inner(self) -> Iterator[Grader]:
        """Yield the graders that this one is made of."""
        yield from ()

    def needs_judge(self) -> bool:
        """Return whether it asks a judge."""
        return any(each.needs_judge() for each in self.inner())


def met(holds: Any, right: str, wrong: str) -> Verdict:
    """Return 1 and what is right, or 0 and what is wrong."""
    return Verdict(1.0, right) if holds else Verdict(0.0, wrong)


def short(text: str) -> str:
    """Return a text as it is shown in a reason: in quotes, on one line, and not longer than 60 characters."""
    line = " ".join(text[:500].split())
    return f"“{line}”" if len(line) <= 60 else f"“{line[:57]}…”"
