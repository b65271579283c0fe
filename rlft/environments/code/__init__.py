"""Programming tasks that are scored by running tests: HumanEval (arXiv:2107.03374), MBPP (arXiv:2108.07732).

The tests that decide are not the ones the model sees, and they run where the model's code is not: see `running`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rlft.contract.base import BaseEnv, Context
from rlft.contract.marks import tool
from rlft.environments.code.answers import complete, extract_code
from rlft.environments.code.running import Checks, Verdict, run_code
from rlft.environments.code.tasks import humaneval_hidden, humaneval_shown, mbpp_row, mbpp_tests
from rlft.sandbox.base import Limits, Sandbox
from rlft.sandbox.create import create_sandbox
from rlft.types import Task, Trajectory


class CodeEnv(BaseEnv):
    """Parts: `passed` (all hidden tests pass), with `partial_credit` also `tests` (the share of them that pass).

    Metrics: `loads` (the code runs up to the first call), `stopped` (it ran into a limit). A subclass says what a task
    is: `tests`, `program`.
    """

    def __init__(
        self,
        sandbox: str | Sandbox = "auto",
        partial_credit: bool = False,
        tool: bool = False,
        cpu_seconds: int = 10,
        seconds: float = 20.0,
        memory_mib: int = 512,
    ) -> None:
        """`tool` lets the model run the shown tests. Limits are for one attempt; see `rlft.sandbox.base.Limits`.

        Keep `seconds` (wall time) well above `cpu_seconds`, so that a busy machine does not change a score, and five
        below `reward.timeout_seconds`, so that a program that hangs is a 0 and not an error. Raises
        `EnvironmentSetupError` when the sandbox does not work here.
        """
        self.partial_credit, self.tool = partial_credit, tool
        self.limits = Limits(seconds=seconds, cpu_seconds=cpu_seconds, memory_mib=memory_mib)
        self.sandbox = create_sandbox(sandbox) if isinstance(sandbox, str) else sandbox

    def shown_tests(self, task: Task) -> Checks:
        """The tests that the model may see."""
        raise NotImplementedError

    def hidden_tests(self, task: Task) -> Checks:
        """The tests that decide."""
        raise NotImplementedError

    def program(self, prompt: str, code: str, tests: Checks) -> str:
        """What runs, given the user's last message and the code of an answer."""
        del prompt, tests
        return code

    async def setup(self, task: Task) -> dict[str, Any]:
        """The shown tests, for the tool; the hidden ones are not in the state."""
        return {"prompt": task.prompt[-1]["content"], "shown": asdict(self.shown_tests(task))} if self.tool else {}

    async def list_tools(self) -> Sequence[Any]:
        """`run_tests`, if the environment has been told to offer it."""
        return await super().list_tools() if self.tool else []

    @tool
    async def run_tests(self, code: str, state: dict[str, Any]) -> str:
        """Run Python code with those tests of the task that are shown to you.

        Args:
            code: The whole code, with all imports and the function that is asked for.
        """
        tests = Checks(**state["shown"])
        if not tests.asserts:
            return "This task shows no tests."
        program = self.program(state["prompt"], code, tests)
        verdict = await run_code(program, tests, self.sandbox, self.limits, explain=True)
        lines = [f"{sum(verdict.passed)} of {len(verdict.passed)} tests passed."]
        lines += [] if verdict.loaded else ["The code failed before its function could be called."]
        lines += [f"It was stopped by the limit on {verdict.stopped}."] if verdict.stopped else []
        return "\n".join([*lines, *verdict.messages])

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        """Run the hidden tests. What the code does is worth 0 at worst; a sandbox that fails is an error."""
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
        """`loads` and `stopped` are metrics."""
        return {"loads": 0.0, "stopped": 0.0}

    def final_answer(self, completion: Trajectory) -> str | None:
        """The code; programs that differ in a character are different votes."""
        return extract_code(completion.text).strip() or None

    def gold_completion(self, task: Task) -> str | None:
        """The reference solution in a fenced block."""
        return None if task.answer is None else f"```python\n{task.answer}\n```"

    def data_fingerprint(self) -> str:
        """The sandbox and its Python: another version may run the same code differently."""
        return self.sandbox.description

    async def _judge(self, task: Task, code: str) -> Verdict:
        tests = self.hidden_tests(task)
        return await run_code(self.program(task.prompt[-1]["content"], code, tests), tests, self.sandbox, self.limits)


class HumanEval(CodeEnv):
    """Complete a function from its signature and docstring. Rows have HumanEval's own fields.

    The task's prompt is the field `prompt`, its answer `canonical_solution`; `test` and `entry_point` stay in `info`.
    """

    def context(self, task: Task) -> Context:
        """How to answer."""
        del task
        return Context(
            system_prompt="Complete the Python function. Answer with one fenced block of Python that holds the whole "
            "function and all it needs."
        )

    def shown_tests(self, task: Task) -> Checks:
        """The examples in the docstring."""
        return humaneval_shown(task)

    def hidden_tests(self, task: Task) -> Checks:
        """The task's `check`; some of what it tests may be an example in the docstring."""
        return humaneval_hidden(task)

    def program(self, prompt: str, code: str, tests: Checks) -> str:
        """The prompt, and the function or its body."""
        return complete(prompt, code, tests.entry_point)


class MBPP(CodeEnv):
    """Write a function from a sentence and one assert, which the system prompt shows; the other asserts decide.

    Rows have MBPP's own fields, of the full or the sanitized version. A row with both (a field `sanitized`) is taken as
    sanitized.
    """

    def context(self, task: Task) -> Context:
        """The assert that is shown, and the verified wording where the prompt is another one."""
        wording = mbpp_row(task).get("prompt")
        is_other = isinstance(wording, str) and wording not in ("", task.prompt[-1]["content"])
        clearer = f"\n\nThe task in clearer words: {wording}" if is_other else ""
        return Context(
            system_prompt="Write the Python function that is asked for. Answer with one fenced block of Python that "
            "holds the function and all it needs. It must pass this test and others like it:\n"
            f"{self.shown_tests(task).asserts[0]}{clearer}"
        )

    def shown_tests(self, task: Task) -> Checks:
        """One assert, mostly the first."""
        return mbpp_tests(task)[0]

    def hidden_tests(self, task: Task) -> Checks:
        """All asserts but the one shown."""
        return mbpp_tests(task)[1]

    def gold_completion(self, task: Task) -> str | None:
        """The reference solution of the version whose tests are run."""
        code = mbpp_row(task).get("code") or task.answer
        return None if code is None else f"```python\n{code}\n```"
