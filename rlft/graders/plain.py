"""JSON values as texts that can be compared."""

from __future__ import annotations

import json
from typing import Any

from rlft.lookalikes import as_seen
from rlft.nfkc import nfc, nfkc


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
    """Return a text as a person reads it: no soft hyphens, full width (NFKC), or letters that look like Latin ones."""
    return as_seen(nfkc(text))
