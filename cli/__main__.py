"""The entry point of the console script and of `python -m cli`.

It handles Ctrl-C, and says how threads wait, before anything slow is imported.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from mlops.runs.signals import end_children, ignore, install, signalled

# New objects after which Python looks for garbage, 700 by default. Imports and ZenML make a million that are none, and
# looking among them took a quarter of the time of the imports.
_OBJECTS = 10_000


def main(arguments: list[str] | None = None) -> None:
    """Run the command that `arguments` give, by default those of the process. Raises SystemExit with its exit code."""
    if sys.stderr is not None:
        with suppress(ValueError, OSError):  # a stderr without a file, as tests have it
            # Of a crash in native code Python's own line is all that there is to see.
            faulthandler.enable(all_threads=False)
    gc.set_threshold(_OBJECTS)
    # Threads of torch that wait would spin, and take the cores from all else. Processes started here inherit it.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    install()
    try:
        from cli.app import make_app  # here and not above: it takes a while, and a Ctrl-C meanwhile is handled

        words = sys.argv[1:] if arguments is None else arguments
        make_app(*words[:1])(words)
    except BaseException as ended:
        if not signalled() or isinstance(ended, SystemExit):
            raise
        with suppress(OSError):
            os.write(2, b"interrupted; no run was going on in this process\n")
        raise SystemExit(128 + signalled()) from None
    finally:
        ignore()  # the command has printed its result, and only Python's own shutdown could be interrupted


def console_script(arguments: list[str] | None = None) -> None:
    """Run a command, and end the process with its exit code as soon as all is written.

    After a signal neither threads are waited for nor what libraries do at the end of a process.
    """
    codes: list[int] = []
    atexit.register(leave, codes)  # the first that is registered is the last that is called
    try:
        main(arguments)
    except SystemExit as ended:
        if isinstance(ended.code, int):
            codes.append(ended.code)
        if signalled():
            end_children()
            leave(codes)
        raise


def leave(codes: Sequence[int]) -> None:
    """End this process at once with the exit code, if that is known. Returns where what was printed cannot be written.

    Python would take all modules apart, which takes seconds of the processor where torch and ZenML are loaded.
    """
    with suppress(OSError, ValueError):
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # as in a process that was started without one
                stream.flush()
        if codes:
            os._exit(codes[0])


if __name__ == "__main__":
    console_script()
