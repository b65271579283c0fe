"""Checks of names that become parts of paths, of addresses and of lines in a terminal."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Annotated

from pydantic import AfterValidator

LONGEST_NAME = 200
LONGEST_PATH = 4000
SPECIFICATION = "_specification_"
"""The argument of an environment that holds the specification of its reward, as JSON text."""
SEVERAL = "rlft.contract.several:Several"
"""The environment of a config that has several: its argument `members` holds the name and the arguments of each."""


def check_name(name: str, *, slashes: bool = False) -> str:
    """Return the name. Raises ValueError if it cannot be a file's name, a part of an address and a cell of a table.

    `slashes` allows names in folders, such as `team/experiment`.
    """
    if not name or len(name) > LONGEST_NAME:
        raise ValueError(f"a name has 1 to {LONGEST_NAME} characters, this one {len(name)}")
    if not name.isprintable():  # control characters, and those that turn the direction of writing
        raise ValueError(f"{name!r:.80} holds a character that cannot be seen; remove it")
    if refused := sorted(set(name) & set("\\:" if slashes else "/\\:")):
        raise ValueError(f"{name!r} holds {' and '.join(refused)}; use letters, digits, spaces, dots, - and _")
    for part in name.split("/"):
        if part in ("", ".", ".."):
            raise ValueError(f"{name!r} leads elsewhere as a path; write it without empty parts, . and ..")
        if part != part.strip() or part.startswith("-"):
            raise ValueError(f"{name!r}: begin with a letter or digit, and let no space stand at an end")
    return name


def check_plain_name(name: str) -> str:
    """Return a name of letters, digits, `_`, `.` and `-`. Raises ValueError for any other."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise ValueError(f"{name!r:.80} is no name: use letters, digits, _, . and -, and begin with a letter or digit")
    return name


def check_model_name(name: str) -> str:
    """Return the name of a registered model. Raises ValueError for one that MLflow or ZenML would read otherwise."""
    if refused := sorted(set(check_name(name)) & set("'@?#%{}")):
        raise ValueError(
            f"{name!r} holds {' and '.join(refused)}, which mean something where models are addressed "
            "(models:/NAME@ALIAS) or looked for (name = 'NAME'); use letters, digits, spaces, dots, - and _"
        )
    return name


def check_text(text: str) -> str:
    """Return a text. Raises ValueError for one without a character that can be seen."""
    if not text.strip():
        raise ValueError("it is empty; write something, or remove the setting")
    return text


def check_path(path: str) -> str:
    """Return the path of a file or folder, `~` at its begin replaced by the user's folder, or a name on the Hub.

    Raises ValueError if it cannot be one.
    """
    if not check_text(path).isprintable():
        raise ValueError(f"{path!r:.80} holds a character that cannot be seen; remove it")
    if len(path) > LONGEST_PATH:
        raise ValueError(f"a path has at most {LONGEST_PATH} characters, this one {len(path)}")
    return os.path.expanduser(path)


def is_import_path(name: str) -> bool:
    """Return whether a name is written as the path of a class: `package.module:Class` or `path/to/file.py:Class`."""
    return re.fullmatch(r"[^:]+:[A-Za-z_][A-Za-z_0-9]*", name) is not None


Name = Annotated[str, AfterValidator(check_name)]
"""A setting that is one name, as `check_name` takes it."""
FolderName = Annotated[str, AfterValidator(partial(check_name, slashes=True))]
"""A setting that is a name and may have slashes in it."""
ModelName = Annotated[str, AfterValidator(check_model_name)]
"""A setting that is the name of a registered model."""
Text = Annotated[str, AfterValidator(check_text)]
"""A setting that is a text with something in it, such as a template or the name of a column."""
PathText = Annotated[str, AfterValidator(check_path)]
"""A setting that is the path of a file or folder, or a name on the Hub."""
