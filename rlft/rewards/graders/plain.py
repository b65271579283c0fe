"""JSON values as texts that can be compared."""

from __future__ import annotations

import json
import re
from typing import Any

from rlft.texts.characters import as_seen, nfc, nfkc, without_marks

_SEPARATORS = dict.fromkeys(range(0x1C, 0x20))  # control characters that are white space to Python alone
_LETTER = r"[^\W\d_]"
_HYPHEN = re.compile(rf"(?<={_LETTER})[-\u2010\u2011]\n?(?={_LETTER})")
_BETWEEN = re.compile(r"[\s.*_-]+")
_SPELT = re.compile(rf"(?<!\w){_LETTER}(?:[\s.*_-]{{1,3}}{_LETTER}(?![^\W_])){{2,}}")


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


def seen(text: str) -> str:
    """Return a text as a person reads it, by which a penalty is not evaded.

    It has no soft hyphens, control characters, full width (NFKC), accents, and letters that look like Latin ones.
    """
    return without_marks(as_seen(nfkc(text.translate(_SEPARATORS))))


def unhyphenated(text: str) -> str:
    """Return a text without hyphens within words, also at the end of a line."""
    return _HYPHEN.sub("", text)


def spelt_out(text: str) -> list[str]:
    """Return what is spelt out in a text letter by letter, `s o r r y` or `s-o-r-r-y`, with the letters together."""
    return [_BETWEEN.sub("", match[0]) for match in _SPELT.finditer(text)]


def holds_something(value: Any) -> bool:
    """Return whether a JSON value has anything that can be seen: a text that is not blank, a number, true or false."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            if seen(each).strip():
                return True
        elif isinstance(each, dict | list):
            waiting.extend(each.values() if isinstance(each, dict) else each)
        elif each is not None:
            return True
    return False
