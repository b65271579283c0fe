"""Runs the model's code against tests in two sandboxes, with the code in one and the tests in the other.

    tests  -> judge   <- plain values ->   subject <- the model's code
    (trusted)         (relayed, as text)              (not trusted)

This process reads what the judge says and passes on what the subject says, unread. Why there are two sandboxes is in
docs/decisions/0008-sandbox.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rlft.environments import code_inside
from rlft.errors import SandboxError, TaskError
from rlft.sandbox.base import MIB, Limits, Sandbox, SandboxProcess, Stopped

_GONE = b'{"gone": 1}\n'
_ANSWER_BYTES = 16 * MIB  # of stdout of each sandbox: all calls, and all that they return
_JUDGE_MIB = 1024


@dataclass(frozen=True, slots=True)
class Checks:
    """Holds the tests of a task: asserts that call the model's functions by name, or a function `check(candidate)`.

    `prelude` is code of the data's own that runs before them (imports, helpers). `check` is the source of the function,
    and then `entry_point` is the name of the model's function that it is called with.
    """

    prelude: str = ""
    asserts: Sequence[str] = ()
    check: str | None = None
    entry_point: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Says which tests passed, in order.

    `loaded` says whether the code ran to its end before the first call, and `stopped` names the limit that the code ran
    into.
    """

    passed: tuple[bool, ...]
    loaded: bool
    stopped: Stopped | None

    @property
    def share(self) -> float:
        """The share of the tests that passed, 0 to 1."""
        return sum(self.passed) / len(self.passed)


async def run_code(code: str, tests: Checks, sandbox: Sandbox, limits: Limits) -> Verdict:
    """Run `tests` on `code` and return which passed; whatever the code does wrong is in the verdict.

    Raises `SandboxError` when a sandbox fails, and `TaskError` when the tests cannot be run.
    """
    # The judge gets five seconds more, so that the subject runs into its limit of time first.
    patient = replace(limits, seconds=limits.seconds + 5, output_bytes=_ANSWER_BYTES, memory_mib=_JUDGE_MIB)
    generous = replace(limits, output_bytes=_ANSWER_BYTES)
    async with (
        sandbox.open(_python(sandbox, "judge"), files=_files(), limits=patient) as judge,
        sandbox.open(_python(sandbox, "subject"), files=_files(), limits=generous) as subject,
    ):
        count = await _start_judge(judge, tests)
        loaded = await _load(subject, code)
        passed = await _relay(judge, subject)
    stopped = _limit(subject) or _limit(judge)
    return Verdict((False,) * count if passed is None else passed, loaded, stopped)


async def _start_judge(judge: SandboxProcess, tests: Checks) -> int:
    """Send the tests to the judge and return how many it has found in them. Raises TaskError if it cannot run them."""
    await judge.write(_line(asdict(tests)))
    line = await judge.read_line()
    count = json.loads(line)["ready"] if line else 0
    if not count:
        ended = await judge.result()
        limit = f"they ran into the limit on {ended.stopped}" if ended.stopped else ""
        said = limit or ended.stderr.decode(errors="replace").strip()[-500:] or "there are none"
        raise TaskError(f"its tests cannot be run: {said}", where="code environment")
    return count


async def _load(subject: SandboxProcess, code: str) -> bool:
    """Send the code to the subject and return whether it ran to its end. Raises SandboxError if nothing is there."""
    if await subject.read_line() is None and subject.stopped is None:
        raise SandboxError("the program that holds the model's code did not start", where="code environment")
    await subject.write(_line({"code": code}))
    answer = await subject.read_line()
    return answer is not None and answer.strip() == b'{"value": null}'


async def _relay(judge: SandboxProcess, subject: SandboxProcess) -> tuple[bool, ...] | None:
    """Carry calls and answers until the judge is done, and return which tests passed.

    Return `None` if the judge was stopped by a limit, to which the answers (huge ones, say) may have driven it.
    """
    while (line := await judge.read_line()) is not None:
        said = json.loads(line)
        if "passed" in said:
            return tuple(said["passed"])
        await subject.write(line)
        await judge.write(await subject.read_line() or _GONE)
    return None


def _limit(process: SandboxProcess) -> Stopped | None:
    """Return the limit that a program ran into; `None` if there was none, or if it was merely no longer needed."""
    return None if process.stopped == "caller" else process.stopped


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"


def _python(sandbox: Sandbox, program: str) -> list[str]:
    return [*sandbox.python, "-m", "code_inside", program]


def _files() -> dict[str, str]:
    return {"code_inside.py": Path(code_inside.__file__).read_text(encoding="utf-8")}
