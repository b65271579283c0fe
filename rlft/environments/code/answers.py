"""Extracts code from a model's answer, and completes a prompt with it."""

from __future__ import annotations

import re
import textwrap
from functools import lru_cache

# `*+` is possessive: with `*`, a fence whose line never ends would be tried with every division of it into parts.
_FENCE = re.compile(r"^([ \t]*+)```[ \t]*+([\w+-]*+)[^\n]*+\n(.*?)(?:^[ \t]*+```|\Z)", re.DOTALL | re.MULTILINE)
_PYTHON = ("python", "python3", "py")


@lru_cache(maxsize=1)  # the score and the vote of an attempt read the same text, one after the other
def extract_code(text: str) -> str:
    """Return the last fenced block labelled as Python, else the last without a label, else the whole text.

    Labelled blocks come first because one without a label may be the program's output. The last block may lack its
    closing fence.
    """
    text = text.replace("\r\n", "\n")
    blocks = [(language.lower(), _without(margin, body)) for margin, language, body in _FENCE.findall(text)]
    labelled = [body for language, body in blocks if language in _PYTHON]
    bare = [body for language, body in blocks if not language]
    return [text, *bare, *labelled][-1]


def _without(margin: str, body: str) -> str:
    """Return a block's body without the margin of its fence, which a fence in a list has.

    A body that begins further left than its fence stays as it is.
    """
    first = next((line for line in body.split("\n") if line.strip()), "")
    if len(first) - len(first.lstrip(" \t")) < len(margin):
        return body
    return re.sub(rf"^[ \t]{{0,{len(margin)}}}", "", body, flags=re.MULTILINE)


def defines(code: str, name: str) -> bool:
    """Return whether the code binds `name` at its top level, as a function, a class or by an assignment."""
    name = re.escape(name)
    return (
        re.search(rf"^(?:(?:async[ ]+)?def[ ]+{name}\b|class[ ]+{name}\b|{name}[ ]*(?::[^=\n]+)?=)", code, re.M)
        is not None
    )


def complete(prompt: str, code: str, entry_point: str) -> str:
    """Return the program made of a prompt, which ends with a signature and a docstring, and its completion.

    `code` is the whole function named `entry_point`, or its body; a body may have lost the indentation of its first
    line, or all of it.
    """
    if defines(code, entry_point):
        return f"{prompt}\n{code}"
    return prompt + _indented(code.strip("\n"))


def _indented(body: str) -> str:
    """Return a function's body with its indentation restored."""
    first, _, rest = body.partition("\n")
    if not first.strip() or first[0].isspace():
        return body
    indents = [len(line) - len(line.lstrip()) for line in rest.splitlines() if line.strip()]
    # A block below the first line is indented once more than the line; if it is by eight, the line has lost its four.
    least = 8 if first.rstrip().endswith(":") else 4
    if indents and indents[0] >= least and min(indents) >= 4:
        return f"    {first}\n{rest}"
    return textwrap.indent(body, "    ")
