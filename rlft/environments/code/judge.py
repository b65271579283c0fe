"""Runs inside a sandbox: runs the tests, which call the model's functions in another sandbox, and says which passed.

The model's code is never here. What it returns comes as plain data (`values.py`) and is compared here, so there is
nothing in this process that it could read, change or forge. One JSON object a line comes in and goes out:

    in   {"prelude": code, "tests": [code, ...], "check": code or null,
          "entry_point": name, "explain": bool}                          out  {"ready": number of tests}
    out  {"call": name, "args": [...], "kwargs": {...}}                      in   the subject's answer, or {"gone": 1}
    out  {"passed": [true, ...], "messages": [why the first ones did not, if it is to explain]}
"""

from __future__ import annotations

import ast
import builtins
import importlib
import json
import os
import random
import sys
from collections.abc import Callable
from typing import Any, TextIO

from rlft.environments.code.values import decode, encode

_LONGEST_MESSAGE, _MOST_MESSAGES = 500, 8


class CallFailed(Exception):
    """The model's function raised something that is no built-in exception, or did not answer."""


class Remote:
    """A function of the model's code, called in its own process."""

    def __init__(self, name: str, calls: TextIO, answers: TextIO) -> None:
        self._name, self._calls, self._answers = name, calls, answers

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns, as plain data; raises what it raises, as far as that is built in."""
        given = {
            "call": self._name,
            "args": [encode(arg) for arg in args],
            "kwargs": {name: encode(value) for name, value in kwargs.items()},
        }
        print(json.dumps(given), file=self._calls, flush=True)
        line = self._answers.readline()
        try:
            answer = json.loads(line)
            if "value" in answer:
                return decode(answer["value"])
            kinds, text = answer.get("bases", ()), f"{answer.get('raised')}: {answer.get('text')}"[:_LONGEST_MESSAGE]
        except Exception as error:
            raise CallFailed(f"{self._name} returned what cannot be read") from error
        raise nearest_exception(kinds, text)


def nearest_exception(names: Any, text: str) -> Exception:
    """The nearest built-in `Exception`, because tests may expect one. A failed call is never an AssertionError."""
    for name in names if isinstance(names, list) else ():
        kind = getattr(builtins, name, None) if isinstance(name, str) else None
        if isinstance(kind, type) and issubclass(kind, Exception) and kind not in (AssertionError, Exception):
            try:
                return kind(text)
            except TypeError:  # such as UnicodeDecodeError, which wants more
                continue
    return CallFailed(text)


def split_check(source: str, entry_point: str) -> tuple[str, list[str]]:
    """The tests in a function `check(candidate)`: what stands before it, and one piece of code for each of its tests.

    A test is a statement at the top of the function that needs the candidate, or something computed with it, and the
    statements since the last test, which prepare it. `assert True` is none. A function that cannot be taken apart (it
    returns) is one test.
    """
    tree = ast.parse(source)
    checks = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    if len(checks) != 1:
        raise ValueError("the test must define check(candidate) once")
    check = checks[0]
    parameter = check.args.args[0].arg
    if any(isinstance(node, ast.Return | ast.Global | ast.Nonlocal | ast.Yield) for node in ast.walk(check)):
        return source, [f"check({entry_point})"]
    rest = [node for node in tree.body if node is not check]
    tainted, pending, tests = {parameter, entry_point}, [], []
    for statement in check.body:
        names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        pending.append(statement)
        if not names & tainted:
            continue
        if any(isinstance(node, ast.Assert | ast.Raise) for node in ast.walk(statement)):
            tests.append("\n".join(map(ast.unparse, pending)))
            pending = []
        else:
            tainted |= {
                node.id
                for node in ast.walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
    before = "\n".join(map(ast.unparse, rest))
    return f"{before}\n{parameter} = {entry_point}", tests


def called_names(tests: list[str], known: set[str]) -> set[str]:
    """The functions that asserts are about: those they call that are neither known nor built in.

    Only where there are none it is a built-in name: some tasks ask for a function called `sum`.
    """
    nodes = [node for test in tests for node in ast.walk(ast.parse(test))]
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)} - known
    return called - set(dir(builtins)) or called


def modules_in(tests: list[str], known: set[str]) -> dict[str, Any]:
    """The modules of the standard library that tests use without importing them (`sys.getsizeof`)."""
    nodes = [node for test in tests for node in ast.walk(ast.parse(test)) if isinstance(node, ast.Attribute)]
    names = {node.value.id for node in nodes if isinstance(node.value, ast.Name)} - known
    return {name: importlib.import_module(name) for name in names & sys.stdlib_module_names}


def run_tests(tests: list[str], namespace: dict[str, Any], *, explain: bool) -> tuple[list[bool], list[str]]:
    """Which tests passed, and for the first of the others why not. Each runs, whatever the ones before did."""
    passed, messages = [], []
    for test in tests:
        try:
            exec(compile(test, "test.py", "exec"), namespace)  # noqa: S102 - the data's test, in a sandbox
            passed.append(True)
        except Exception as error:
            passed.append(False)
            if explain and len(messages) < _MOST_MESSAGES:
                messages.append(_message(test, error, namespace))
    return passed, messages


def _message(test: str, error: Exception, namespace: dict[str, Any]) -> str:
    if not isinstance(error, AssertionError):
        return f"{test.strip()}\n  raised {type(error).__name__}: {error}"[: 2 * _LONGEST_MESSAGE]
    return f"{test.strip()}\n  {_seen(test, namespace)}"[: 2 * _LONGEST_MESSAGE]


def _seen(test: str, namespace: dict[str, Any]) -> str:
    """What the left side of a failed comparison is, called once more."""
    statement = ast.parse(test).body[-1]
    if not (isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Compare)):
        return "is not true"
    left = ast.Expression(statement.test.left)
    try:
        return f"the left side is {eval(compile(left, 'test.py', 'eval'), namespace)!r}"[:_LONGEST_MESSAGE]
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"


def prepare(task: dict[str, Any], remote: Callable[[str], Any]) -> tuple[list[str], dict[str, Any]]:
    """The tests of a task and the names they run with."""
    namespace: dict[str, Any] = {"__name__": "tests"}
    exec(compile(task["prelude"], "prelude.py", "exec"), namespace)  # noqa: S102 - the data's, in a sandbox
    before = ""
    if task["check"] is None:
        tests = task["tests"]
        names = called_names(tests, set(namespace))
        namespace |= modules_in(tests, set(namespace))
    else:
        before, tests = split_check(task["check"], task["entry_point"])
        names = {task["entry_point"]}
    namespace |= {name: remote(name) for name in names}
    exec(compile(before, "before.py", "exec"), namespace)  # noqa: S102 - the data's, in a sandbox
    return tests, namespace


def main() -> None:
    """Read the task, run its tests, say which passed."""
    answers, calls = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)  # for tests that print
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    random.seed(0)
    task = json.loads(answers.readline())
    tests, namespace = prepare(task, lambda name: Remote(name, calls, answers))
    print(json.dumps({"ready": len(tests)}), file=calls, flush=True)
    passed, messages = run_tests(tests, namespace, explain=task["explain"])
    print(json.dumps({"passed": passed, "messages": messages}), file=calls, flush=True)


if __name__ == "__main__":
    sys.setrecursionlimit(5000)
    main()
