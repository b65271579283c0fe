"""The entry point of the console script and of `python -m cli`.

It handles Ctrl-C, and says how threads wait, before anything slow is imported.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
from contextlib import suppress

from mlops.runtime.hangs import watch_for_hangs
from mlops.runtime.leaving import leave
from mlops.runtime.signals import Interrupt, ignore

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
    Interrupt().install()
    watch_for_hangs()
    from cli.app import app  # here and not above: it takes a while, and a Ctrl-C meanwhile is handled

    try:
        app(arguments)
    finally:
        ignore()  # the command has printed its result, and only Python's own shutdown could be interrupted


def console_script(arguments: list[str] | None = None) -> None:
    """Run a command, and end the process with its exit code as soon as all is written."""
    try:
        main(arguments)
    except SystemExit as ended:
        if isinstance(ended.code, int):
            leave(ended.code)
        raise


if __name__ == "__main__":
    console_script()
