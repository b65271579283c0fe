"""A function of the user's as a grader."""

from __future__ import annotations

import copy
import inspect
from numbers import Real
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from rlft.environments.workers.threads import in_thread
from rlft.rewards.specification.grader import Attempt, Grader, Verdict
from rlft.rewards.specification.reading import Read, said, value_read


class Function(Grader):
    """A Python function of yours scores the value: `f(value, item) -> float`. It runs in the process of the reward."""

    bounded: ClassVar[bool] = False

    type: Literal["function"]
    read: Read | None = Field(default=None, description="What the function gets. null means the whole last message.")
    function: str = Field(description="The function, as `package.module:function` or `path/to/file.py:function`.")

    @field_validator("function")
    @classmethod
    def _names_a_function(cls, name: str) -> str:
        place, _, attribute = name.rpartition(":")
        if not place or not attribute.isidentifier():
            raise ValueError(f"{name!r:.80} names no function; write my_rewards.py:f or package.module:f")
        return name

    def functions(self) -> tuple[str, ...]:
        """Return the function."""
        return (self.function,)

    def says(self) -> str:
        """Return what is checked, in words."""
        return f"the function {self.function} gives {said(self.read)} a score"

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return what the function returns. Raises what it raises, and TypeError for what is no number."""
        value, function = value_read(self.read, attempt), attempt.helpers.functions[self.function]
        # Copies, as what the function changes must not reach the task or the next grader.
        given, item = copy.deepcopy(value), copy.deepcopy(dict(attempt.item))
        score = await in_thread(lambda: function(given, item))
        if inspect.isawaitable(score):
            score = await score
        if not isinstance(score, Real):
            raise TypeError(f"{self.function} returned {type(score).__name__} {score!r:.80}, not a number")
        return Verdict(float(score), f"{self.function} returned {float(score):g}")
