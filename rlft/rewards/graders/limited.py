"""Regular expressions that somebody wrote, on texts that a model wrote: one that backtracks for ever is cut."""

from __future__ import annotations

from functools import lru_cache

import regex

LONGEST_PATTERN = 2000
"""The most characters of a pattern."""


class PatternTooSlow(TimeoutError):
    """A pattern was cut at its limit of seconds, so that nothing is known of the text."""


def check_pattern(pattern: str) -> str:
    """Return the pattern. Raises ValueError, which says where it is wrong, for what is no regular expression."""
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"a pattern has at most {LONGEST_PATTERN} characters, this one {len(pattern)}")
    try:
        _compiled(pattern)
    except regex.error as error:  # its text names the place
        raise ValueError(f"{pattern!r:.80} is no regular expression, in which nothing is filled in: {error}") from None
    except RecursionError:
        raise ValueError(f"{pattern!r:.80} is nested too deeply") from None
    return pattern


def find(pattern: str, text: str, *, seconds: float, whole: bool = False) -> str | None:
    """Return what a pattern matches first in a text, or the `whole` text if it matches that; else `None`.

    Raises `PatternTooSlow` after `seconds`. `re` cannot be interrupted; the package `regex` can be, by the processor
    time of this process, in which other threads have their share.
    """
    ready = _compiled(pattern)
    try:
        match = (ready.fullmatch if whole else ready.search)(text, timeout=seconds, concurrent=True)
    except TimeoutError:
        raise _too_slow(pattern, text, seconds) from None
    return None if match is None else match[0]


def find_all(pattern: str, text: str, *, seconds: float, most: int) -> list[str]:
    """Return the first `most` matches of a pattern in a text, of each its first group, or the match if it has none.

    Raises `PatternTooSlow` as `find` does.
    """
    ready, found = _compiled(pattern), list[str]()
    try:
        for match in ready.finditer(text, timeout=seconds, concurrent=True):
            found.append((match[1] if ready.groups else match[0]) or "")
            if len(found) == most:
                break
    except TimeoutError:
        raise _too_slow(pattern, text, seconds) from None
    return found


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> regex.Pattern[str]:
    return regex.compile(pattern)


def _too_slow(pattern: str, text: str, seconds: float) -> PatternTooSlow:
    return PatternTooSlow(
        f"the pattern {pattern!r:.80} took longer than {seconds:g} s on {len(text):,} characters; write it without "
        "repetitions within repetitions"
    )
