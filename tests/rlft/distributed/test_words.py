"""What errors about Ray say is one line."""

from __future__ import annotations

import pytest

from rlft.distributed.words import said_by

TRACE = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nValueError: too short\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n  it timed out \nand more", "it timed out"),
        (TRACE, "ValueError: too short"),
        (f"a worker has failed\n{TRACE}", "ValueError: too short"),
        ("", ""),
        (400 * "x", 300 * "x"),
    ],
)
def test_an_error_is_said_in_one_line(text, said):
    assert said_by(RuntimeError(text)) == said
