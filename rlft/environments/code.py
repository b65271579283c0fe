"""Programming tasks, whose answers are run against tests in a sandbox: a base class, HumanEval and MBPP."""

from __future__ import annotations

import ast
import re
import textwrap
from functools import lru_cache
from typing import Any

from rlft.environments.code_running import Checks, Verdict, run_code
from rlft.environments.contract.base import BaseEnv, Context
from rlft.errors import TaskError
from rlft.sandbox.base import Limits, Sandbox
from rlft.sandbox.create import create_sandbox
from rlft.texts.syntax import parse
from rlft.types import Task, Trajectory


class CodeEnv(BaseEnv):
    """Base class of environments that score code by running hidden tests on it.

    Parts: `passed` (all hidden tests pass), with `partial_credit` also `tests` (the share of them that pass). Metrics:
    `loads` (the code runs up to the first call) and `stopped` (it ran into a limit). A subclass defines `hidden_tests`,
    and `program` where the program is more than the answer's code. The last message of a task's prompt is the user's.
    """

    def __init__(
        self,
        sandbox: str | Sandbox = "auto",
        partial_credit: bool = False,
        cpu_seconds: int = 10,
        seconds: float = 20.0,
        memory_mib: int = 512,
    ) -> None:
        """Set up the sandbox (a name, or one that is made) and the limits of one attempt (`rlft.sandbox.base.Limits`).

        Keep `seconds` (wall time) well above `cpu_seconds`, so that a busy machine does not change a score, and at
        least five below `reward.timeout_seconds`, so that a program that hangs is a 0 and not an error. Raises
        `EnvironmentSetupError` when the sandbox does not work on this machine.
        """
        self.partial_credit = partial_credit
        self.limits = Limits(seconds=seconds, cpu_seconds=cpu_seconds, memory_mib=memory_mib)
        self.sandbox = create_sandbox(sandbox) if isinstance(sandbox, str) else sandbox

    def hidden_tests(self, task: Task) -> Checks:
        """Return the tests that the reward runs."""
        raise NotImplementedError

    def program(self, prompt: str, code: str, tests: Checks) -> str:
        """Return the program to test, given the user's last message and the code of an answer."""
        del prompt, tests
        return code

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        """Run the hidden tests on the answer's code. Whatever the code does, it scores 0 at worst.

        Raises `SandboxError` when the sandbox fails, and `TaskError` when the task's tests cannot be run.
        """
        del ground_truth
        code = extract_code(completion.text)
        verdict = await self._judge(completion.task, code) if code.strip() else None
        share = verdict.share if verdict else 0.0
        parts: dict[str, float | None] = {"passed": float(share == 1.0)}
        if self.partial_credit:
            parts["tests"] = share
        loads, stopped = (verdict.loaded, verdict.stopped is not None) if verdict else (False, False)
        return {**parts, "loads": float(loads), "stopped": float(stopped)}

    def reward_weights(self) -> dict[str, float]:
        """Return weight 0, that of a metric, for `loads` and `stopped`."""
        return {"loads": 0.0, "stopped": 0.0}

    def reward_minima(self) -> dict[str, float]:
        """Return 0: no part of a score is below it."""
        return {"*": 0.0}

    def final_answer(self, completion: Trajectory) -> str | None:
        """Return the answer's code; programs that differ in a character are different votes."""
        return extract_code(completion.text).strip() or None

    def gold_completion(self, task: Task) -> str | None:
        """Return the reference solution in a fenced block, or `None` if there is none."""
        return None if task.answer is None else f"```python\n{task.answer}\n```"

    def data_fingerprint(self) -> str:
        """Return the description of the sandbox and its Python: another version may run the same code differently."""
        return self.sandbox.description

    async def _judge(self, task: Task, code: str) -> Verdict:
        tests = self.hidden_tests(task)
        return await run_code(self.program(task.prompt[-1]["content"], code, tests), tests, self.sandbox, self.limits)


class HumanEval(CodeEnv):
    """Asks for the completion of a function from its signature and docstring. Rows have HumanEval's own fields.

    The task's prompt is the field `prompt`, its answer `canonical_solution`; `test` and `entry_point` stay in `info`.
    """

    def context(self, task: Task) -> Context:
        """Return the system prompt, which asks for the whole function in one fenced block."""
        del task
        return Context(
            system_prompt="Complete the Python function. Answer with one fenced block of Python that holds the whole "
            "function and all it needs."
        )

    def hidden_tests(self, task: Task) -> Checks:
        """Return the task's `check(candidate)`, with the prompt as its prelude: it may define helpers.

        Some of what it tests may be an example in the docstring. Raises `TaskError` for a row without HumanEval's
        fields.
        """
        prelude = task.prompt[-1]["content"]
        return Checks(prelude=prelude, check=_field(task, "test"), entry_point=_field(task, "entry_point"))

    def program(self, prompt: str, code: str, tests: Checks) -> str:
        """Return the prompt followed by the function, or completed by its body."""
        return complete(prompt, code, tests.entry_point)


class MBPP(CodeEnv):
    """Asks for a function from a sentence and one assert, which the system prompt shows; the other asserts decide.

    Rows have MBPP's own fields, of the full or the sanitized version. A row with both (a field `sanitized`) is taken as
    sanitized.
    """

    def context(self, task: Task) -> Context:
        """Return the system prompt with the shown assert, and the sanitized wording if the prompt is another one."""
        wording = mbpp_row(task).get("prompt")
        is_other = isinstance(wording, str) and wording not in ("", task.prompt[-1]["content"])
        clearer = f"\n\nThe task in clearer words: {wording}" if is_other else ""
        return Context(
            system_prompt="Write the Python function that is asked for. Answer with one fenced block of Python that "
            "holds the function and all it needs. It must pass this test and others like it:\n"
            f"{mbpp_tests(task)[0].asserts[0]}{clearer}"
        )

    def hidden_tests(self, task: Task) -> Checks:
        """Return all asserts except the one shown."""
        return mbpp_tests(task)[1]

    def gold_completion(self, task: Task) -> str | None:
        """Return the reference solution of the version whose tests are run, in a fenced block, or `None`."""
        code = mbpp_row(task).get("code") or task.answer
        return None if code is None else f"```python\n{code}\n```"


def mbpp_row(task: Task) -> dict[str, Any]:
    """Return the row's fields, with those of its hand-verified version (`sanitized`) in their place if it has one.

    `test_setup_code` and `challenge_test_list`, which only the full version has, are empty then.
    """
    sanitized = task.info.get("sanitized")
    return {**task.info, "test_setup_code": "", "challenge_test_list": [], **sanitized} if sanitized else task.info


def mbpp_tests(task: Task) -> tuple[Checks, Checks]:
    """Return the assert that the prompt shows, and the others. Raises `TaskError` with fewer than two of them.

    The first one is shown, unless all the others expect the same value, so that a constant would pass them: of three
    that expect True, False, False the second is shown.
    """
    row = mbpp_row(task)
    prelude = "\n".join([*row.get("test_imports", ()), row.get("test_setup_code") or ""]).replace("\r\n", "\n")
    asserts = [test.strip() for test in [*(row.get("test_list") or ()), *(row.get("challenge_test_list") or ())]]
    tests = list(dict.fromkeys(asserts))
    if len(tests) < 2:
        raise TaskError(
            f"task {task.id} has no test that could be hidden",
            where="test_list",
            fix="give it two different asserts, or leave the row out",
        )
    others = {test: [other for other in tests if other != test] for test in tests}
    shown = next((test for test in tests if len(set(map(_expected, others[test]))) > 1), tests[0])
    return Checks(prelude, (shown,)), Checks(prelude, tuple(others[shown]))


def _expected(test: str) -> str:
    """Return what an assert compares with, as code; "True" or "False" for a bare call or its negation."""
    try:
        statements = parse(test).body
    except SyntaxError:  # an error of the task, which the judge reports
        return test
    match statements:
        case [ast.Assert(test=ast.Compare(comparators=[*_, last]))]:
            return ast.unparse(last)
        case [ast.Assert(test=ast.UnaryOp(op=ast.Not()))]:
            return "False"
        case _:
            return "True"


def _field(task: Task, name: str) -> str:
    if not isinstance(task.info.get(name), str):
        raise TaskError(
            f"task {task.id} has no text in {name!r}", where="tasks", fix="use rows with HumanEval's own fields"
        )
    return task.info[name]


# `*+` is possessive: with `*`, a fence whose line never ends would be tried with every division of it into parts.
_FENCE = re.compile(r"^([ \t]*+)```[ \t]*+([\w+-]*+)[^\n]*+\n(.*?)(?:^[ \t]*+```|\Z)", re.DOTALL | re.MULTILINE)
_PYTHON = ("python", "python3", "py")


@lru_cache(maxsize=1)  # the score and the vote of an attempt read the same text, one after the other
def extract_code(text: str) -> str:
    """Return the last fenced block labelled as Python, else the last without a label, else the whole text.

    Labelled blocks come first because one without a label may be the program's output. The last block may lack its
    closing fence.
    """
    text = text.replace("\r\n", "\n")
    blocks = [(language.lower(), _without(margin, body)) for margin, language, body in _FENCE.findall(text)]
    labelled = [body for language, body in blocks if language in _PYTHON]
    bare = [body for language, body in blocks if not language]
    return [text, *bare, *labelled][-1]


def _without(margin: str, body: str) -> str:
    """Return a block's body without the margin of its fence, which a fence in a list has.

    A body that begins further left than its fence stays as it is.
    """
    first = next((line for line in body.split("\n") if line.strip()), "")
    if len(first) - len(first.lstrip(" \t")) < len(margin):
        return body
    return re.sub(rf"^[ \t]{{0,{len(margin)}}}", "", body, flags=re.MULTILINE)


def defines(code: str, name: str) -> bool:
    """Return whether the code binds `name` at its top level, as a function, a class or by an assignment."""
    name = re.escape(name)
    return (
        re.search(rf"^(?:(?:async[ ]+)?def[ ]+{name}\b|class[ ]+{name}\b|{name}[ ]*(?::[^=\n]+)?=)", code, re.M)
        is not None
    )


def complete(prompt: str, code: str, entry_point: str) -> str:
    """Return the program made of a prompt, which ends with a signature and a docstring, and its completion.

    `code` is the whole function named `entry_point`, or its body; a body may have lost the indentation of its first
    line, or all of it.
    """
    if defines(code, entry_point):
        return f"{prompt}\n{code}"
    return prompt + _indented(code.strip("\n"))


def _indented(body: str) -> str:
    """Return a function's body with its indentation restored."""
    first, _, rest = body.partition("\n")
    if not first.strip() or first[0].isspace():
        return body
    indents = [len(line) - len(line.lstrip()) for line in rest.splitlines() if line.strip()]
    # A block below the first line is indented once more than the line; if it is by eight, the line has lost its four.
    least = 8 if first.rstrip().endswith(":") else 4
    if indents and indents[0] >= least and min(indents) >= 4:
        return f"    {first}\n{rest}"
    return textwrap.indent(body, "    ")
