"""Refuses secrets in a config or suite, and names of environment variables where none are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rlft.config.names import SPECIFICATION
from rlft.secrets import find_secrets, find_shown_secrets, misspelt_variables, named_variables

_OF_ATTEMPTS = re.compile(rf"(?:^|\.)(?:reward\.spec\.(?!judge\.)|kwargs\.{SPECIFICATION}$)")


def refuse_secrets(content: Mapping[str, Any]) -> None:
    """Raise ValueError, which names the places, if settings hold what looks like a secret or a misspelt variable.

    In a specification of the reward, whose names and texts are about attempts, only what is a secret by its own form
    counts: a criterion may be called `password`.
    """
    settings, specifications = _apart(content, "")
    if wrong := list(misspelt_variables(settings, "")):
        raise ValueError(
            f"{', '.join(wrong)}: a variable is named env:NAME, or {{env:NAME}} within a text, in small letters, "
            "without spaces, NAME of letters, digits and _"
        )
    if found := find_secrets(settings):
        raise ValueError(
            f"{', '.join(found)}: looks like a secret, and would be stored with the run; put it into a variable of "
            "the environment and write env:NAME, or {env:NAME} within a text (so too if it is none)"
        )
    if found := [place for path, each in specifications.items() for place in find_shown_secrets(each, path)]:
        raise ValueError(
            f"{', '.join(found)}: looks like a secret, and would be stored with the run; take it out, or write it "
            "otherwise if it is none"
        )


def _apart(content: Any, path: str) -> tuple[Any, dict[str, Any]]:
    """Return settings without specifications of a reward but for their judges, and the specifications by their paths.

    What an environment has in `kwargs` was made of them.
    """
    if isinstance(content, list | tuple):
        parts = [_apart(each, f"{path}[{place}]") for place, each in enumerate(content)]
        return [rest for rest, _ in parts], {place: each for _, found in parts for place, each in found.items()}
    if not isinstance(content, Mapping):
        return content, {}
    settings, specifications = dict[str, Any](), dict[str, Any]()
    for key, value in content.items():
        place = f"{path}.{key}" if path else str(key)
        if place.endswith("reward.spec") and isinstance(value, Mapping):
            settings[key] = {"judge": value.get("judge")}
            specifications[place] = {name: each for name, each in value.items() if name != "judge"}
        elif not place.endswith(f"kwargs.{SPECIFICATION}"):
            settings[key], found = _apart(value, place)
            specifications |= found
    return settings, specifications


def refuse_unread_variables(settings: Mapping[str, Any], reads: Sequence[str]) -> None:
    """Raise ValueError for a variable outside of the settings that begin with one of `reads`.

    In what a specification says about attempts `env:NAME` is a text like any other.

    In `reads` `[]` stands for any place of a list, and `*` for any one key.
    """
    patterns = [re.escape(path).replace(r"\*", r"[^.]+") for path in reads]
    for path, name in named_variables(settings, ""):
        if _OF_ATTEMPTS.search(path):
            continue
        plain = re.sub(r"\[[0-9]+\]", "[]", path)
        if not any(re.match(pattern, plain) for pattern in patterns):
            raise ValueError(
                f"{path} is stored as it is written, so env:{name} would not be read there; "
                f"{', '.join(reads)} take variables"
            )
