"""JSON values as texts that can be compared, how long a text is, and bounded regular expressions.

Somebody wrote the expressions, and a model the texts: one that backtracks for ever is cut.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Literal

import regex

from rlft.texts.characters import as_seen, count_words, nfc, nfkc


def plain(value: Any) -> str:
    """Return a JSON value as text: a text as it is, a whole number without a point, all else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def normal(text: str, *, ignore_case: bool, ignore_space: bool) -> str:
    """Return a text as it is compared: in one Unicode form (NFC), and without case and surplus white space if asked."""
    text = nfc(text)
    if ignore_case:
        text = text.casefold()
    return " ".join(text.split()) if ignore_space else text


def holds_something(value: Any) -> bool:
    """Return whether a JSON value has anything that can be seen: a text that is not blank, a number, true or false."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            if as_seen(nfkc(each)).strip():
                return True
        elif isinstance(each, dict | list):
            waiting.extend(each.values() if isinstance(each, dict) else each)
        elif each is not None:
            return True
    return False


Measured = Literal["characters", "words", "lines"]


def size(text: str, measured: Measured) -> int:
    """Return how many of these a text has, without what surrounds it.

    Words are those of `rlft.texts.characters.count_words`; lines have something on them.
    """
    text = text.strip()
    if measured == "words":
        return count_words(text)
    return len(text) if measured == "characters" else sum(bool(line.strip()) for line in text.splitlines())


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
