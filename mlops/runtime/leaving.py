"""How a process ends whose work is done."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress

from mlops.runtime.signals import ignore


def leave(status: int) -> None:
    """End this process with an exit code as Python does, but for taking all modules apart, which does nothing for what
    runs on and takes seconds of the processor where torch and ZenML are loaded.

    Threads are waited for, functions of `atexit` are called, and what was printed is written. Returns only where that
    cannot be written; Python's own end says so.
    """
    ignore()
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # as in a process that was started without one
                stream.flush()
        os._exit(status)
