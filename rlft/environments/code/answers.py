"""From what a model wrote to code that can be run."""

from __future__ import annotations

import re
import textwrap
from functools import lru_cache

# `*+` gives nothing back: a fence whose line never ends would be tried with every division of that line into parts.
_FENCE = re.compile(r"^([ \t]*+)```[ \t]*+([\w+-]*+)[^\n]*+\n(.*?)(?:^[ \t]*+```|\Z)", re.DOTALL | re.MULTILINE)
_PYTHON = ("python", "python3", "py")


@lru_cache(maxsize=1)  # the score and the vote of an attempt read the same text, one after the other
def extract_code(text: str) -> str:
    """The last fenced block labelled as Python, else the last without a label, else the whole text.

    A block without a label may be what the program prints. A last block may lack its closing fence.
    """
    text = text.replace("\r\n", "\n")
    blocks = [(language.lower(), _without(margin, body)) for margin, language, body in _FENCE.findall(text)]
    labelled = [body for language, body in blocks if language in _PYTHON]
    bare = [body for language, body in blocks if not language]
    return [text, *bare, *labelled][-1]


def _without(margin: str, body: str) -> str:
    """A block without its fence's margin, as in a list; a body that begins further left than its fence stays."""
    first = next((line for line in body.split("\n") if line.strip()), "")
    if len(first) - len(first.lstrip(" \t")) < len(margin):
        return body
    return re.sub(rf"^[ \t]{{0,{len(margin)}}}", "", body, flags=re.MULTILINE)


def defines(code: str, name: str) -> bool:
    """Whether the code binds `name` at its top: a function, a class or an assignment."""
    name = re.escape(name)
    return (
        re.search(rf"^(?:(?:async[ ]+)?def[ ]+{name}\b|class[ ]+{name}\b|{name}[ ]*(?::[^=\n]+)?=)", code, re.M)
        is not None
    )


def complete(prompt: str, code: str, entry_point: str) -> str:
    """The program that a completion makes of a prompt which ends with a signature and a docstring.

    The completion is the whole function, or its body; a body may have lost the indentation of its first line, or all.
    """
    if defines(code, entry_point):
        return f"{prompt}\n{code}"
    return prompt + _indented(code.strip("\n"))


def _indented(body: str) -> str:
    first, _, rest = body.partition("\n")
    if not first.strip() or first[0].isspace():
        return body
    indents = [len(line) - len(line.lstrip()) for line in rest.splitlines() if line.strip()]
    # A block below the first line is indented once more than the line; if it is by eight, the line has lost its four.
    least = 8 if first.rstrip().endswith(":") else 4
    if indents and indents[0] >= least and min(indents) >= 4:
        return f"    {first}\n{rest}"
    return textwrap.indent(body, "    ")
