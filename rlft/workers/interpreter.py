"""Shares Python's interpreter between threads that both have much to do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 1e-4
"""After which a thread that computes in Python lets another one go on; Python's own setting is 5e-3."""


@contextmanager
def shared_evenly() -> Iterator[None]:
    """Have the threads of this process take turns of `SECONDS` while the context is open.

    torch gives the interpreter's lock away in every operation, and asks for it again after that. Beside a thread that
    computes in Python (a reward, say) each of the operations then waits for a whole turn of the other one, on a GPU
    before it is launched: a round of 1.3 s took 12 s, and 4.4 s in shorter turns, which cost the other a third.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
