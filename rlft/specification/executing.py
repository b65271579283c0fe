"""Whether a program of a grader runs other code beside itself, as far as its text shows."""

from __future__ import annotations

import ast

from rlft.syntax import parse

_RUN = ("exec", "eval", "compile", "execfile", "run_path", "run_module", "exec_module", "runcode", "runsource")


def runs_code(source: str) -> bool:
    """Return whether Python code seems to run other code in its own process: whether it calls `exec` or the like."""
    try:
        calls = [node.func for node in ast.walk(parse(source)) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    names = {each.id if isinstance(each, ast.Name) else getattr(each, "attr", "") for each in calls}
    of_patterns = {
        each.attr for each in calls if isinstance(each, ast.Attribute) and _is_named(each.value, "re", "regex")
    }
    return bool((names - of_patterns) & set(_RUN))


def _is_named(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Name) and node.id in names
