"""Regular expressions that somebody wrote, on texts that a model wrote: one that backtracks for ever is cut."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import lru_cache

import regex

from rlft.rewards.graders import patterns
from rlft.rewards.graders.patterns import Found, Search, compiled, search

LONGEST_PATTERN = 2000
"""The most characters of a pattern."""
_BESIDE_OTHERS = 0.1
"""Seconds of processor time of all threads, after which a match is tried again where it is alone."""


class PatternTooSlow(TimeoutError):
    """A pattern was cut at its limit of seconds, so that nothing is known of the text."""


def check_pattern(pattern: str) -> str:
    """Return the pattern. Raises ValueError, which says where it is wrong, for what is no regular expression."""
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"a pattern has at most {LONGEST_PATTERN} characters, this one {len(pattern)}")
    try:
        compiled(pattern)
    except regex.error as error:  # its text names the place
        if "{{" in pattern:
            raise ValueError(
                f"{pattern!r:.80} is a pattern, in which nothing is filled in: use a grader that takes templates, such "
                "as exact or contains, or write \\{\\{ for two braces"
            ) from None
        raise ValueError(f"{pattern!r:.80} is no regular expression: {error}") from None
    except RecursionError:
        raise ValueError(f"{pattern!r:.80} is nested too deeply") from None
    return pattern


def find(pattern: str, text: str, *, seconds: float, whole: bool = False) -> str | None:
    """Return what a pattern matches first in a text, or the `whole` text if it matches that; else `None`.

    Raises `PatternTooSlow` after `seconds`, which are processor time of this match and nothing else. `re` cannot be
    interrupted; the package `regex` can be, by the processor time of its whole process, in which other threads have
    their share. So a match that is not over after a tenth of a second is tried again in a process where it is alone.
    What takes just about `seconds` may be cut once and not another time, but a process asks about equal texts once.
    """
    found = _matches(Search(pattern, text, "fullmatch" if whole else "search", 1), seconds)
    return found[0][0] if found else None


def find_all(pattern: str, text: str, *, seconds: float, most: int) -> list[str]:
    """Return the first `most` matches of a pattern in a text, of each its first group, or the match if it has none.

    Raises `PatternTooSlow` as `find` does.
    """
    return [match[-1] or "" for match in _matches(Search(pattern, text, "finditer", most), seconds)]


def _matches(asked: Search, seconds: float) -> Found:
    found = search(asked, min(seconds, _BESIDE_OTHERS))
    if found is None:
        found = _alone(asked, seconds)
    if found is None:
        raise _too_slow(asked.pattern, asked.text, seconds)
    return found


@lru_cache(maxsize=64)
def _alone(asked: Search, seconds: float) -> Found | None:
    """Return the matches, found in a process without other threads; `None` if that takes longer than its seconds."""
    done = subprocess.run(
        [sys.executable, "-P", patterns.__file__],
        input=json.dumps([seconds, asked]).encode(),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        check=False,
    )
    if done.returncode == -signal.SIGXCPU:  # `regex` does not look at the clock everywhere
        return None
    if done.returncode != 0:
        raise RuntimeError(f"the process for a pattern failed: {done.stderr.decode(errors='replace').strip()[-300:]}")
    found = json.loads(done.stdout)
    return None if found is None else [(whole, group) for whole, group in found]


def _too_slow(pattern: str, text: str, seconds: float) -> PatternTooSlow:
    return PatternTooSlow(
        f"the pattern {pattern!r:.80} took longer than {seconds:g} s on {len(text):,} characters; write it without "
        "repetitions within repetitions"
    )
