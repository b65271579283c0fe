"""Graders that are code: a function of the user's, and a program in the sandbox as OpenAI's graders have it."""

from __future__ import annotations

import ast
import copy
import inspect
import json
import math
from numbers import Real
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from rlft.sandbox.base import Limits, run_program
from rlft.specification.attempt import Attempt, Verdict
from rlft.specification.grader import Grader
from rlft.specification.reading import Read, said, value_read
from rlft.workers.threads import in_thread

_PROGRAM = """\
import json, os, sys
asked = json.loads(sys.stdin.read())
out = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
import graded
score = graded.grade(asked["sample"], asked["item"])
print(json.dumps(float(score)), file=out, flush=True)
"""
_LONGEST_SOURCE = 256 * 1024  # as OpenAI's
_SECONDS = 20.0


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


class Program(Grader):
    """OpenAI's `python`: a program that defines `grade(sample, item)`, run in the sandbox for each attempt."""

    bounded: ClassVar[bool] = False

    type: Literal["python"]
    name: str = Field(default="", description="A name, which is not read.")
    source: str = Field(description="Python code that defines `grade(sample, item)` and returns a number.")
    image_tag: str | None = Field(default=None, description="Not read: the Python is that of the sandbox.")

    @field_validator("source")
    @classmethod
    def _defines_grade(cls, source: str) -> str:
        if len(source) > _LONGEST_SOURCE:
            raise ValueError(f"the source has {len(source):,} characters, and at most {_LONGEST_SOURCE:,} are taken")
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise ValueError(f"the source is no Python: {error}") from None
        if not any(isinstance(node, ast.FunctionDef) and node.name == "grade" for node in tree.body):
            raise ValueError("the source defines no grade(sample, item)")
        return source

    def says(self) -> str:
        """Return what is checked, in words."""
        return "a program in the sandbox gives the attempt a score"

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return what the program returns. Raises ValueError if it fails, SandboxError if the sandbox does."""
        sandbox = attempt.helpers.sandbox
        assert sandbox is not None  # whoever loads a specification with programs makes one
        asked = json.dumps({"sample": attempt.sample, "item": attempt.item}).encode()
        files = {"graded.py": self.source, "run_graded.py": _PROGRAM}
        limits = Limits(seconds=_SECONDS, output_bytes=64 * 1024)
        argv = [*sandbox.python, "-m", "run_graded"]
        result = await run_program(sandbox, argv, files=files, stdin=asked, limits=limits)
        if result.stopped is not None:
            raise ValueError(f"the program ran into the limit on {result.stopped}")
        try:
            score = float(json.loads(result.stdout))
        except (ValueError, TypeError):
            last = result.stderr.decode(errors="replace").strip()[-300:] or "it returned no number"
            raise ValueError(f"the program failed: {last}") from None
        if not math.isfinite(score):
            raise ValueError(f"the program returned {score}")
        return Verdict(score, f"the program returned {score:g}")
