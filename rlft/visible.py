"""Text from anywhere, as a person may see it: nothing in it steers the terminal or turns the order of letters round."""

from __future__ import annotations

import json
import re
from typing import Any

# C0 but tab and newline, DEL and C1; marks and overrides of direction; separators of lines; half surrogate pairs, which
# no encoding takes. All stand below U+10000, as JSON's escapes do.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""The text with every character that steers a terminal or hides what is there written out: `\x1b`, `\u202e`.

    Newlines and tabs stay. What was written out stands as it is when it is seen a second time.
    """
    return _STEERING.sub(lambda found: ascii(found[0])[1:-1], text)


def visible_json(value: Any) -> str:
    r"""A JSON value as text, indented; the characters that `visible` writes out are JSON's escapes (`\u001b`).

    Whoever reads the JSON gets the same strings back. Raises what `json.dumps` raises.
    """
    text = json.dumps(value, ensure_ascii=False, indent=1)
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
