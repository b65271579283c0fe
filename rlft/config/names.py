"""Checks of names that become parts of paths, of addresses and of lines in a terminal."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated

from pydantic import AfterValidator

LONGEST_NAME = 200


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


def is_import_path(name: str) -> bool:
    """Whether a name is written as the path of a class: `package.module:Class` or `path/to/file.py:Class`."""
    return re.fullmatch(r"[^:]+:[A-Za-z_][A-Za-z_0-9]*", name) is not None


Name = Annotated[str, AfterValidator(check_name)]
"""A setting that is one name, as `check_name` takes it."""
FolderName = Annotated[str, AfterValidator(partial(check_name, slashes=True))]
"""A setting that is a name and may have slashes in it."""
