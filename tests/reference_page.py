"""The page of all public names, from the docstrings: `python -m tests.reference_page > docs/guide/reference.md`."""

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import rlft
import rlft.types
from rlft.outcome import Failure
from rlft.types import FunctionCall, InvalidToolCall, Reward, ToolCall

HEAD = """# Reference

What an environment's code is given and what it returns, made from the docstrings. The examples are run by a test.
[Your own environment](environments.md) shows how the parts fit together, [settings](settings.md) what a config holds.

An error of an environment's own code says where it happened and what there is instead, wherever it is shown:
`compute_reward: KeyError: 'text', at capitals.py:12; task.info has: id, queue, when`.
"""
SECTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    (
        "What a method is given",
        (rlft.Task, rlft.Trajectory, rlft.Turn, rlft.Message, ToolCall, FunctionCall, InvalidToolCall),
    ),
    ("What an environment is", (rlft.BaseEnv, rlft.Context, rlft.tool, rlft.reward, rlft.metric, rlft.file_hash)),
    ("What comes of it", (rlft.Rollout, Reward, Failure)),
)


def page() -> str:
    """All public names of `rlft`, and the types that theirs are made of."""
    parts = [HEAD]
    for title, found in SECTIONS:
        parts.append(f"## {title}\n")
        for each in found:
            parts += class_part(each) if inspect.isclass(each) else function_part(each)
    return "\n".join(parts)


def class_part(found: type) -> Iterator[str]:
    """Its docstring, a row for each attribute and a row for each method."""
    body = ast.parse(textwrap.dedent(inspect.getsource(found))).body[0]
    assert isinstance(body, ast.ClassDef)
    yield f"### {public_name(found)}\n\n{text(body)}\n"
    if rows := [f"| `{name}` | `{kind}` | {told} |" for name, kind, told in attributes(body, found.__name__)]:
        yield "\n".join(["| attribute | type | |\n|---|---|---|", *rows]) + "\n"
    if rows := [f"| `{signature(each)}` | {flat(documented(each, found.__name__))} |" for each in methods(body)]:
        yield "\n".join(["| method | |\n|---|---|", *rows]) + "\n"


def function_part(found: Callable[..., Any]) -> Iterator[str]:
    """Its signature and docstring."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(found))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    yield f"### {public_name(found)}\n\n{text(tree)}\n"


def attributes(body: ast.ClassDef, where: str) -> Iterator[tuple[str, str, str]]:
    """(name, type, docstring) of the fields, each followed by its docstring, and of the properties."""
    for place, statement in enumerate(body.body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            match body.body[place + 1 : place + 2]:
                case [ast.Expr(value=ast.Constant(value=str(told)))]:
                    yield statement.target.id, type_name(statement), flat(told)
                case _:
                    raise ValueError(f"{where}.{statement.target.id} has no docstring below it")
        elif isinstance(statement, ast.FunctionDef) and is_property(statement):
            kind = ast.unparse(statement.returns) if statement.returns else ""
            yield statement.name, kind, flat(documented(statement, where))


def methods(body: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Those that users call or write."""
    functions = [each for each in body.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [each for each in functions if not each.name.startswith("_") and not is_property(each)]


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it is read like an attribute."""
    return any(ast.unparse(each) == "property" for each in function.decorator_list)


def documented(node: ast.FunctionDef | ast.AsyncFunctionDef, where: str) -> str:
    """The docstring. Raises ValueError where there is none."""
    if (found := ast.get_docstring(node)) is None:
        raise ValueError(f"{where}.{node.name} has no docstring")
    return found


def signature(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """As it is called, with types."""
    arguments = ast.unparse(function.args).removeprefix("self, ").removeprefix("self")
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"{function.name}({arguments}){returns}".replace("|", "\\|")


def type_name(statement: ast.AnnAssign) -> str:
    """As it is written, without what only a type checker asks for."""
    match statement.annotation:
        case ast.Subscript(value=ast.Name(id="NotRequired"), slice=inner):
            kind = ast.unparse(inner)
        case other:
            kind = ast.unparse(other)
    value = statement.value
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        value = next(each.value for each in value.keywords if each.arg.startswith("default"))
    default = f" = {ast.unparse(value).replace('dict', '{}')}" if value else ""
    return f"{kind}{default}".replace("|", "\\|")


def text(node: ast.ClassDef | ast.FunctionDef) -> str:
    """A docstring whose examples are a block of code."""
    prose, mark, example = (ast.get_docstring(node) or "").partition(">>> ")
    return prose.rstrip() + (f"\n\n```python\n{mark}{example.rstrip()}\n```" if mark else "")


def flat(docstring: str) -> str:
    """For a cell of a table: one line."""
    return " ".join(docstring.split()).replace("|", "\\|")


def public_name(found: Any) -> str:
    """Where it is imported from."""
    name = found.__name__
    if name in rlft.__all__:
        return f"rlft.{name}"
    module = "rlft.types" if name in rlft.types.__all__ else found.__module__
    return f"{module}.{name}"


if __name__ == "__main__":
    sys.stdout.write(page())
