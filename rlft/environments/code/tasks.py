"""Reads the tests of HumanEval and MBPP rows, and says which of them are shown and which are hidden."""

from __future__ import annotations

import ast
import doctest
from typing import Any

from rlft.environments.code.running import Checks
from rlft.errors import TaskError
from rlft.syntax import parse
from rlft.types import Task


def humaneval_prompt(task: Task) -> str:
    """Return the code that the model continues, which is the last message of the prompt."""
    return task.prompt[-1]["content"]


def humaneval_hidden(task: Task) -> Checks:
    """Return the task's `check(candidate)`, with the prompt as its prelude: it may define helpers.

    Raises `TaskError` for a row without HumanEval's fields.
    """
    return Checks(prelude=humaneval_prompt(task), check=_field(task, "test"), entry_point=_field(task, "entry_point"))


def humaneval_shown(task: Task) -> Checks:
    """Return the docstring's examples that expect a literal (`>>> f(1)` and `2` below it) as asserts.

    Raises `TaskError` for a row without HumanEval's fields.
    """
    shown = []
    for example in _examples(_docstring(task)):
        try:
            ast.literal_eval(example.want.strip())
            called = ast.unparse(parse(example.source.strip(), mode="eval"))  # without its comment
        except (ValueError, SyntaxError):
            continue
        shown.append(f"assert ({called}) == ({example.want.strip()})")
    return Checks(prelude="from typing import *", asserts=tuple(shown), entry_point=_field(task, "entry_point"))


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


def _examples(docstring: str) -> list[doctest.Example]:
    """Return the examples in a docstring, or none if doctest cannot read it (an argument has a line break, say)."""
    try:
        return doctest.DocTestParser().get_examples(docstring)
    except ValueError:
        return []


def _docstring(task: Task) -> str:
    """Return the docstring of the task's function, or an empty text."""
    for node in ast.walk(parse(humaneval_prompt(task))):
        if isinstance(node, ast.FunctionDef) and node.name == task.info["entry_point"]:
            return ast.get_docstring(node) or ""
    return ""


def _field(task: Task, name: str) -> str:
    if not isinstance(task.info.get(name), str):
        raise TaskError(
            f"task {task.id} has no text in {name!r}", where="tasks", fix="use rows with HumanEval's own fields"
        )
    return task.info[name]
