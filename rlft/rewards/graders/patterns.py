"""Looks for a pattern in a text under a limit of processor time; run as a program it does so in a process of its own.

It imports nothing of rlft, so that such a process starts in a tenth of a second.
"""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import regex

Found = list[tuple[str, str | None]]
"""Of each match the whole of it, and its first group, or the whole again where the pattern has no group."""


class Search(NamedTuple):
    """What is looked for: the first `most` matches by this method of a compiled pattern."""

    pattern: str
    text: str
    method: Literal["search", "fullmatch", "finditer"]
    most: int


@lru_cache(maxsize=256)
def compiled(pattern: str) -> regex.Pattern[str]:
    """Return the compiled pattern. Raises `regex.error` for what is none, RecursionError where it is nested deeply."""
    return regex.compile(pattern)


def search(asked: Search, seconds: float) -> Found | None:
    """Return the matches; `None` after so many seconds of processor time, which all threads of this process take."""
    ready, found = compiled(asked.pattern), Found()
    try:
        made: Any = getattr(ready, asked.method)(asked.text, timeout=seconds, concurrent=True)
        for match in made if asked.method == "finditer" else filter(None, [made]):
            found.append((match[0], match[1] if ready.groups else match[0]))
            if len(found) == asked.most:
                break
    except TimeoutError:
        return None
    return found


def _main() -> None:
    """Read [seconds, what is looked for] from stdin, and write what is found."""
    seconds, asked = json.load(sys.stdin)
    # The kernel ends what `regex` does not.
    most = math.ceil(time.process_time() + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
    sys.stdout.write(json.dumps(search(Search(*asked), seconds)))


if __name__ == "__main__":
    _main()
