"""The programs in the two sandboxes of a score: the judge, which has the tests, and the subject, the model's code.

The model's code is never in the judge's process. What it returns arrives as plain data and is compared there, so there
is nothing there that it could read, change or forge. In the subject nothing is secret and nothing is trusted: the
model's code may rewrite all of it, and can then do no more than answer calls, which is what it is asked to do.

One JSON object a line comes in on stdin and goes out on stdout. Of the judge:

    in   {"prelude": code, "asserts": [code, ...], "check": code or null,
          "entry_point": name}                                           out  {"ready": number of tests}
    out  {"call": name, "args": [...], "kwargs": {...}}                      in   the subject's answer, or {"gone": 1}
    out  {"passed": [true, ...]}

Of the subject:

    in   {"code": text}                                     out  {"ready": 1} before, then {"value": null}
    in   {"call": name, "args": [...], "kwargs": {...}}     out  {"value": encoded}
                                                            or   {"raised": class, "bases": [...], "text": ...}

Values are encoded as JSON for a closed set of built-in types: only data can cross over. A subclass is sent as the
built-in type it derives from (a Counter as a dict, an IntEnum as an int), an iterator as what it yields, a match of a
regular expression as the tuple of its groups. This module imports nothing but the standard library.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import json
import os
import random
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

_SMALL = 1 << 53  # integers that every reader of JSON holds exactly are below it; others go as hexadecimal text
_TYPES = {kind.__name__: kind for kind in (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)}


class NotPlain(TypeError):
    """Raised for a value of a type that cannot be sent from one process to the other."""


def encode(value: Any) -> Any:
    """Return JSON for a value: itself, or [tag of its type, its content], such as `["t", [1, 2]]` for a tuple.

    Raises `NotPlain` for other types, `RecursionError` for what is nested too deep.
    """
    if value is None or value is True or value is False:
        return value
    kind = type(value)
    if kind is str:
        return value
    if kind is int:
        return value if -_SMALL < value < _SMALL else ["i", hex(value)]
    if kind is float:
        return ["f", value.hex()]
    return _encode_other(value)


def _encode_other(value: Any) -> Any:
    # Methods of the built-in types are called on the class, as the model's subclasses may override them.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return ["i", hex(int.__index__(value))]
    if isinstance(value, float):
        return ["f", float.hex(value)]
    if isinstance(value, complex):
        return ["c", [value.real.hex(), value.imag.hex()]]
    if isinstance(value, dict):
        return ["d", [[encode(key), encode(item)] for key, item in dict.items(value)]]
    for tag, kind in (("l", list), ("t", tuple), ("s", set), ("z", frozenset)):
        if isinstance(value, kind):
            return [tag, [encode(item) for item in kind.__iter__(value)]]  # type: ignore[arg-type]
    if isinstance(value, bytes | bytearray):
        return ["b" if isinstance(value, bytes) else "a", bytes(value).hex()]
    if isinstance(value, range):
        return ["r", [encode(part) for part in (value.start, value.stop, value.step)]]
    if value is Ellipsis:
        return ["e", 0]
    if isinstance(value, Iterator):
        return ["n", [encode(item) for item in value]]
    if isinstance(value, type) and value.__name__ in _TYPES:
        return ["y", value.__name__]
    if isinstance(value, re.Match):
        return ["t", [encode(group) for group in (value.group(), *value.groups())]]
    raise NotPlain(f"a {type(value).__name__} cannot be passed on")


def decode(data: Any) -> Any:
    """Return the value that `encode` wrote, which always has one of exactly the built-in types.

    Raises `ValueError`, `LookupError`, `TypeError` or `RecursionError` for anything else.
    """
    if data is None or isinstance(data, bool | int | str):
        return data
    if not isinstance(data, list) or len(data) != 2 or not isinstance(data[0], str) or data[0] not in _DECODE:
        raise ValueError("this is not an encoded value")
    return _DECODE[data[0]](data[1])


def _items(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise ValueError("items must be a list")
    return [decode(item) for item in data]


def _pairs(data: Any) -> dict[Any, Any]:
    return {decode(key): decode(item) for key, item in data}


_DECODE: dict[str, Callable[[Any], Any]] = {
    "i": lambda data: int(data, 16),
    "f": float.fromhex,
    "c": lambda data: complex(float.fromhex(data[0]), float.fromhex(data[1])),
    "d": _pairs,
    "l": _items,
    "t": lambda data: tuple(_items(data)),
    "s": lambda data: set(_items(data)),
    "z": lambda data: frozenset(_items(data)),
    "b": bytes.fromhex,
    "a": bytearray.fromhex,
    "r": lambda data: range(*_items(data)),
    "e": lambda data: Ellipsis,
    "y": lambda data: _TYPES[data],
    "n": lambda data: iter(_items(data)),
}


_LONGEST_MESSAGE = 500  # characters


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


def run_tests(tests: list[str], namespace: dict[str, Any]) -> list[bool]:
    """Run every test, and return which passed."""
    passed = []
    for test in tests:
        try:
            exec(compile(test, "test.py", "exec"), namespace)  # noqa: S102 - the data's test, in a sandbox
            passed.append(True)
        except Exception:
            passed.append(False)
    return passed


def prepare(task: dict[str, Any], remote: Callable[[str], Any]) -> tuple[list[str], dict[str, Any]]:
    """Return the tests of a task and the namespace that they run in, with `remote` functions for the model's."""
    namespace: dict[str, Any] = {"__name__": "tests"}
    exec(compile(task["prelude"], "prelude.py", "exec"), namespace)  # noqa: S102 - the data's, in a sandbox
    before = ""
    if task["check"] is None:
        tests = task["asserts"]
        names = called_names(tests, set(namespace))
        namespace |= modules_in(tests, set(namespace))
    else:
        before, tests = split_check(task["check"], task["entry_point"])
        names = {task["entry_point"]}
    namespace |= {name: remote(name) for name in names}
    exec(compile(before, "before.py", "exec"), namespace)  # noqa: S102 - the data's, in a sandbox
    return tests, namespace


def judge() -> None:
    """Read the task from stdin, run its tests, and write which passed to stdout."""
    answers, calls = _streams()
    random.seed(0)
    task = json.loads(answers.readline())
    tests, namespace = prepare(task, lambda name: Remote(name, calls, answers))
    print(json.dumps({"ready": len(tests)}), file=calls, flush=True)
    print(json.dumps({"passed": run_tests(tests, namespace)}), file=calls, flush=True)


_LONGEST_TEXT = 300  # characters of an exception's text


def subject() -> None:
    """Read calls from stdin and answer them on stdout, until there are no more."""
    calls, answers = _streams()
    namespace: dict[str, Any] = {"__name__": "solution", "__builtins__": __builtins__}
    print('{"ready": 1}', file=answers, flush=True)
    for line in calls:
        try:
            text = json.dumps({"value": encode(_answer(json.loads(line), namespace))})
        except BaseException as error:
            text = json.dumps(_as_json(error))
        print(text, file=answers, flush=True)


def _answer(call: dict[str, Any], namespace: dict[str, Any]) -> Any:
    if "code" in call:
        exec(compile(call["code"], "solution.py", "exec"), namespace)  # noqa: S102 - this is the sandbox
        return None
    name = call["call"]
    if name not in namespace:
        raise NameError(f"name {name!r} is not defined")
    kwargs = {key: decode(value) for key, value in call["kwargs"].items()}
    return namespace[name](*[decode(value) for value in call["args"]], **kwargs)


def _as_json(error: BaseException) -> dict[str, Any]:
    """Return an exception as an answer, with the names of its built-in base classes, the most special first."""
    bases = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
    return {"raised": type(error).__name__, "bases": bases, "text": str(error)[:_LONGEST_TEXT]}


def _streams() -> tuple[TextIO, TextIO]:
    """Return stdin and stdout for the messages; what the code prints and reads itself is nothing."""
    came_in, goes_out = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    return came_in, goes_out


if __name__ == "__main__":
    sys.setrecursionlimit(5000)
    {"judge": judge, "subject": subject}[sys.argv[1]]()
