"""Graders that are code: a function of the user's, a program in the sandbox as OpenAI has it, a scorer of MLflow.

A scorer or judge of MLflow (`mlflow.genai`: `@scorer`, `make_judge`) is named by its import path. Nothing here imports
MLflow: the file that makes the scorer does, and what it says is read by its attributes.
"""

from __future__ import annotations

import ast
import copy
import inspect
import json
import math
import secrets
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from rlft.environments.workers.threads import in_thread
from rlft.errors import RewardError
from rlft.rewards.specification.grader import Attempt, Grader, Unmeasured, Verdict, short
from rlft.rewards.specification.reading import Read, said, value_read
from rlft.sandbox.base import Limits, SandboxResult, run_program

# Code of an attempt in a process that `grade` starts anew can read neither the grader nor the words that sign a result,
# and so write none. What `grade` runs in this process itself, by `exec`, can do both: nothing here prevents that.
_PROGRAM = """\
def main():
    import ctypes, json, linecache, os, sys, traceback, types
    write, leave, number, text = os.write, os._exit, float, repr
    asked = json.loads(sys.stdin.buffer.read())
    sign, out = asked["sign"], os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    ctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE: processes that `grade` starts cannot look into this one
    def say(what):
        write(out, f"\\n{sign} {what}\\n".encode())
    say("began")
    try:
        source, graded = asked.pop("source"), types.ModuleType("graded")
        linecache.cache["graded.py"] = len(source), None, source.splitlines(True), "graded.py"
        sys.modules["graded"] = graded
        exec(compile(source, "graded.py", "exec"), vars(graded))
        score = text(number(graded.grade(asked["sample"], asked["item"])))
    except Exception:
        traceback.print_exc()
        say("raised")
        leave(1)
    say(score)
    leave(0)
main()
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


class Program(Grader):
    """OpenAI's `python`: a program that defines `grade(sample, item)`, run in the sandbox for each attempt.

    Code of the attempt that `grade` runs itself, by `exec` or an import, can read the answer and write any score: let
    it run in a process of its own (docs/guide/reward-specification.md).
    """

    bounded: ClassVar[bool] = False
    needs_sandbox: ClassVar[bool] = True

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
        except (RecursionError, MemoryError):  # what CPython says of deep nesting; its parser says MemoryError
            raise ValueError("the source is nested too deeply to be read as Python") from None
        except (SyntaxError, ValueError) as error:
            raise ValueError(f"the source is no Python: {error}") from None
        if not any(isinstance(node, ast.FunctionDef) and node.name == "grade" for node in tree.body):
            raise ValueError("the source defines no grade(sample, item)")
        return source

    def says(self) -> str:
        """Return what is checked, in words."""
        return "a program in the sandbox gives the attempt a score"

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return what the program returns.

        Raises Unmeasured if it ends before that, by a limit too, ValueError if it raises an error or cannot start, and
        SandboxError if the sandbox fails.
        """
        sandbox = attempt.helpers.sandbox
        assert sandbox is not None  # whoever loads a specification with programs makes one
        sign = secrets.token_hex(16)
        # The source goes in by stdin, which is read once: a file with it could be read by what `grade` starts.
        asked = {"sign": sign, "source": self.source, "sample": attempt.sample, "item": attempt.item}
        limits = Limits(seconds=_SECONDS, output_bytes=64 * 1024)
        argv = [*sandbox.python, "-m", "run_graded"]
        files, given = {"run_graded.py": _PROGRAM}, json.dumps(asked).encode()
        result = await run_program(sandbox, argv, files=files, stdin=given, limits=limits)
        score = _signed(result, sign)
        if not math.isfinite(score):
            raise ValueError(f"the program returned {score}")
        return Verdict(score, f"the program returned {score:g}")


def _signed(result: SandboxResult, sign: str) -> float:
    """Return the score that a program has signed.

    Raises ValueError if it could not start, or said that `grade` raised an error, and Unmeasured for any other end.
    """
    lines = result.stdout.decode(errors="replace").splitlines()
    said = [line.removeprefix(f"{sign} ") for line in lines if line.startswith(f"{sign} ")]
    if result.stopped is None and result.exit_code == 0 and len(said) == 2 and said[0] == "began":
        return float(said[1])
    if said[:1] == ["began"] and said[1:] != ["raised"]:
        how = f"at the limit on {result.stopped}" if result.stopped is not None else "before `grade` returned"
        raise Unmeasured(f"the program ended {how}, as what it runs of the attempt may do")
    last = result.stderr.decode(errors="replace").strip()[-300:] or "it returned no number"
    raise ValueError(f"the program failed: {last}")


_WORDS = {"yes": 1.0, "true": 1.0, "pass": 1.0, "no": 0.0, "false": 0.0, "fail": 0.0}


class MlflowScorer(Grader):
    """A scorer of MLflow decides: what `@scorer` or `make_judge` has made in a file of yours. It asks its own model."""

    type: Literal["mlflow"]
    scorer: str = Field(description="The scorer, as `path/to/file.py:name` or `package.module:name`.")
    passing: list[str] = Field(
        default=[],
        description="Texts that score 1, of a scorer that answers with a text; any other text scores 0. Without any, "
        "`yes`, `true` and `pass` score 1 and `no`, `false` and `fail` 0, whatever the case.",
    )

    @field_validator("scorer")
    @classmethod
    def _names_a_scorer(cls, name: str) -> str:
        place, _, attribute = name.rpartition(":")
        if not place or not attribute.isidentifier():
            raise ValueError(f"{name!r:.80} names no scorer; write my_scorers.py:kind or package.module:kind")
        return name

    def functions(self) -> tuple[str, ...]:
        """Return the scorer."""
        return (self.scorer,)

    def says(self) -> str:
        """Return what is checked, in words."""
        return f"MLflow's scorer {self.scorer} says {' or '.join(self.passing) or 'yes'} to it"

    async def grade(self, attempt: Attempt) -> Verdict:
        """Return what the scorer says. Raises what it raises, and RewardError for an error and for what is no score."""
        scorer = attempt.helpers.functions[self.scorer]
        self._check_needs(scorer)
        run: Callable[..., Any] = getattr(scorer, "run", scorer)  # gives a scorer those arguments alone that it takes
        asked = {
            "inputs": {"messages": [{"role": "user", "content": str(attempt.item.get("prompt", ""))}]},
            "outputs": attempt.text,
            "expectations": {"expected_response": attempt.item["answer"]} if "answer" in attempt.item else {},
        }
        said = await in_thread(lambda: run(**copy.deepcopy(asked)))
        if (error := getattr(said, "error", None)) is not None:
            raise RewardError(f"{self.scorer} failed: {getattr(error, 'error_message', None) or error}")
        value, why = getattr(said, "value", said), getattr(said, "rationale", None)
        score = self._score(value)
        return Verdict(score, " ".join(str(why or f"{self.scorer} says {value!r:.60}").split())[:500])

    def _check_needs(self, scorer: Callable[..., Any]) -> None:
        """Raise RewardError for a scorer that must have what is not there while rewards are made."""
        parameters = inspect.signature(scorer.__call__).parameters
        if missing := [name for name in ("trace", "session") if name in parameters and _is_required(parameters[name])]:
            raise RewardError(
                f"{self.scorer} asks for the argument {missing[0]!r}, and a reward has `inputs`, `outputs` and "
                "`expectations`"
            )

    def _score(self, value: Any) -> float:
        if isinstance(value, int | float) and 0 <= value <= 1:  # True and False, too
            return float(value)
        if isinstance(value, str) and self.passing:
            return float(value in self.passing)
        if isinstance(value, str) and value.strip().lower() in _WORDS:
            return _WORDS[value.strip().lower()]
        known = "yes or no" if not self.passing else "a text"
        raise RewardError(f"{self.scorer} said {short(repr(value))}, neither a number from 0 to 1 nor {known}")


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is inspect.Parameter.empty
