"""Functions fit a screen, wherever they stand."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("rlft", "mlops", "materializers", "steps", "pipelines", "cli")
LONGEST = 55  # lines, signature and docstring included


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_fit_a_screen(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    functions = [
        (f"{file.relative_to(ROOT)}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1)
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    ]
    assert [function for function in functions if function[1] > LONGEST] == []
