"""Refuses secrets in a config or suite, and names of environment variables where none are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rlft.secrets import find_secrets, misspelt_variables, named_variables


def refuse_secrets(content: Mapping[str, Any]) -> None:
    """Raise ValueError, which names the places, if settings hold what looks like a secret or a misspelt variable."""
    if wrong := list(misspelt_variables(content, "")):
        raise ValueError(
            f"{', '.join(wrong)}: a variable is named env:NAME, or {{env:NAME}} within a text, in small letters, "
            "without spaces, NAME of letters, digits and _"
        )
    if found := find_secrets(content):
        raise ValueError(
            f"{', '.join(found)}: looks like a secret, and would be stored with the run; put it into a variable of "
            "the environment and write env:NAME, or {env:NAME} within a text (so too if it is none)"
        )


def refuse_unread_variables(settings: Mapping[str, Any], reads: Sequence[str]) -> None:
    """Raise ValueError for a variable outside of the settings that begin with one of `reads`.

    In `reads` `[]` stands for any place of a list, and `*` for any one key.
    """
    patterns = [re.escape(path).replace(r"\*", r"[^.]+") for path in reads]
    for path, name in named_variables(settings, ""):
        plain = re.sub(r"\[[0-9]+\]", "[]", path)
        if not any(re.match(pattern, plain) for pattern in patterns):
            raise ValueError(
                f"{path} is stored as it is written, so env:{name} would not be read there; "
                f"{', '.join(reads)} take variables"
            )
