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
        raise ValueError(f"{pattern!r:.80} is no regular expression: {error}") from None
    except RecursionError:
        raise ValueError(f"{pattern!r:.80} is nested too deeply") from None
    return pattern


def find(pattern: str, text: str, *, seconds: float, whole: bool = False) -> regex.Match[str] | None:
    """Return the first place in a text that a pattern matches, or the `whole` text if it matches that; else `None`.

    `re` cannot be interrupted; the package `regex` looks at the clock while it backtracks. Raises `PatternTooSlow`
    after `seconds` of wall time.
    """
    compiled = _compiled(pattern)
    try:
        return (compiled.fullmatch if whole else compiled.search)(text, timeout=seconds, concurrent=True)
    except TimeoutError:
        raise _too_slow(pattern, text, seconds) from None


def find_all(pattern: str, text: str, *, seconds: float, most: int) -> list[str]:
    """Return the first `most` matches of a pattern in a text, of each its first group, or the match if it has none.

    Raises `PatternTooSlow` as `find` does.
    """
    compiled, found = _compiled(pattern), list[str]()
    try:
        for match in compiled.finditer(text, timeout=seconds, concurrent=True):
            found.append((match[1] if compiled.groups else match[0]) or "")
            if len(found) == most:
                break
    except TimeoutError:
        raise _too_slow(pattern, text, seconds) from None
    return found


def _too_slow(pattern: str, text: str, seconds: float) -> PatternTooSlow:
    return PatternTooSlow(
        f"the pattern {pattern!r:.80} took longer than {seconds:g} s on {len(text):,} characters; write it without "
        "repetitions within repetitions"
    )


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> regex.Pattern[str]:
    return regex.compile(pattern)
