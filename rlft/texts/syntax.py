"""Parses Python text into a tree, in processes in which garbage is collected meanwhile."""

from __future__ import annotations

import ast
from typing import Literal, overload

_TRIES = 5


@overload
def parse(text: str, mode: Literal["exec"] = "exec") -> ast.Module: ...


@overload
def parse(text: str, mode: Literal["eval"]) -> ast.Expression: ...


def parse(text: str, mode: Literal["exec", "eval"] = "exec") -> ast.AST:
    """Return the tree of a module, or of one expression where `mode` is `eval`. Raises what `ast.parse` raises.

    CPython before 3.11.8 counts the depth of a tree in one number for the whole interpreter while it turns the tree
    into objects. Making objects can collect garbage; a finalizer, or another thread that runs meanwhile, which parses
    something too changes that number, and `ast.parse` raises SystemError for a text that is fine
    (https://github.com/python/cpython/issues/106905). The garbage is gone at the next try.
    """
    for _ in range(_TRIES - 1):
        try:
            return ast.parse(text, mode=mode)
        except SystemError:
            continue
    return ast.parse(text, mode=mode)
