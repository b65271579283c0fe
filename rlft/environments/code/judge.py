"""A program for the sandbox of the tests: it runs them, and their calls go to the model's code in another sandbox.

The model's code is never in this process. What it returns arrives as plain data (`values.py`) and is compared here, so
there is nothing here that it could read, change or forge. One JSON object a line comes in on stdin and goes out on
stdout:

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

_LONGEST_MESSAGE, _MOST_MESSAGES = 500, 8  # characters, messages


class CallFailed(Exception):
    """Raised where the model's function did not answer, or raised something that is no built-in exception."""


class Remote:
    """Stands for a function of the model's code, which it calls in the other sandbox."""

    def __init__(self, name: str, calls: TextIO, answers: TextIO) -> None:
        self._name, self._calls, self._answers = name, calls, answers

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns, as plain data.

        Raises the nearest built-in exception to what the function raises, or CallFailed.
        """
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
    """Return an exception of the first class in `names` that is built in and can be made from `text`, else CallFailed.

    `names` are the classes of what was raised, the most special first; tests may expect one of them. A failed call is
    never an AssertionError, which is how a test itself fails.
    """
    for name in names if isinstance(names, list) else ():
        kind = getattr(builtins, name, None) if isinstance(name, str) else None
        if isinstance(kind, type) and issubclass(kind, Exception) and kind not in (AssertionError, Exception):
            try:
                return kind(text)
            except TypeError:  # some take more than a text, such as UnicodeDecodeError
                continue
    return CallFailed(text)


def split_check(source: str, entry_point: str) -> tuple[str, list[str]]:
    """Split a function `check(candidate)` into tests. Return the code to run before them, and the code of each.

    A test is a statement at the top of the function that asserts or raises and needs the candidate, or something
    computed with it, together with the statements since the last test, which prepare it. `assert True` is none. A
    function that cannot be taken apart (it returns, say) is one test. Raises ValueError unless `check` is defined once.
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
    tainted, pending, tests = {parameter, entry_point}, [], []  # tainted: names computed with the candidate
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
    """Return the names of the functions under test: those that the tests call and that are neither known nor built in.

    If there are none, return the built-in names that they call: some tasks ask for a function called `sum`.
    """
    nodes = [node for test in tests for node in ast.walk(ast.parse(test))]
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)} - known
    return called - set(dir(builtins)) or called


def modules_in(tests: list[str], known: set[str]) -> dict[str, Any]:
    """Import and return the modules of the standard library that tests use without an import (`sys.getsizeof`)."""
    nodes = [node for test in tests for node in ast.walk(ast.parse(test)) if isinstance(node, ast.Attribute)]
    names = {node.value.id for node in nodes if isinstance(node.value, ast.Name)} - known
    return {name: importlib.import_module(name) for name in names & sys.stdlib_module_names}


def run_tests(tests: list[str], namespace: dict[str, Any], *, explain: bool) -> tuple[list[bool], list[str]]:
    """Run every test, and return which passed, and with `explain` why the first of the others did not."""
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
    """Return what the left side of a failed comparison is, for which it is evaluated once more."""
    statement = ast.parse(test).body[-1]
    if not (isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Compare)):
        return "is not true"
    left = ast.Expression(statement.test.left)
    try:
        return f"the left side is {eval(compile(left, 'test.py', 'eval'), namespace)!r}"[:_LONGEST_MESSAGE]
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"


def prepare(task: dict[str, Any], remote: Callable[[str], Any]) -> tuple[list[str], dict[str, Any]]:
    """Return the tests of a task and the namespace that they run in, with `remote` functions for the model's."""
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
    """Read the task from stdin, run its tests, and write which passed to stdout."""
    answers, calls = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)  # what the tests print must not get between the calls
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
