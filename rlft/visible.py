"""Makes text from anywhere safe to look at: nothing in it controls the terminal or reverses the order of letters."""

from __future__ import annotations

import json
import re
from typing import Any

# Control characters (C0 but tab and newline, DEL, C1), marks and overrides of direction, line separators, and lone
# surrogates, which no encoding takes. All are below U+10000, so one JSON escape of four digits is enough for each.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Return the text with control characters and the like written out as escapes: `\x1b`, `\u202e`.

    Newlines and tabs stay. Applying it again changes nothing.
    """
    return _STEERING.sub(lambda found: ascii(found[0])[1:-1], text)


def visible_json(value: Any) -> str:
    r"""Return a JSON value as indented text, in which the characters that `visible` writes out are escapes (`\u001b`).

    A program that reads the JSON gets the same strings back. Raises what `json.dumps` raises.
    """
    text = json.dumps(value, ensure_ascii=False, indent=1)
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
