"""Says where code hangs that keeps Python's interpreter to itself, and ends its process where a signal cannot.

While a regular expression of `re` backtracks no other thread runs, and no handler of a signal. So another process
looks whether Python still runs here. It is this file, run as a program, which imports nothing of rlft.
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_RUNS = 0  # the byte that says so; all others are numbers of signals that came


def watch_for_hangs(says_after: float = 30.0, ends_after: float = 10.0) -> None:
    """Have another process tell of it when no Python code has run in this one for `says_after` seconds.

    It kills this process where that still holds `ends_after` seconds after one of `SIGNALS`. To be called once, in the
    main thread.
    """
    with suppress(ValueError, OSError, AttributeError):  # a stderr without a file, as tests have it, or none
        faulthandler.register(signal.SIGUSR1)
        limits = [f"{seconds:g}" for seconds in (says_after, ends_after)]
        watcher = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, *limits], stdin=subprocess.PIPE, stdout=sys.stderr
        )
        assert watcher.stdin is not None
        os.set_blocking(watcher.stdin.fileno(), False)
        signal.set_wakeup_fd(watcher.stdin.fileno(), warn_on_full_buffer=False)
        threading.Thread(
            target=_say_it_runs, args=(watcher.stdin.fileno(), watcher, says_after / 6), daemon=True
        ).start()


def _say_it_runs(pipe: int, _kept: subprocess.Popen[bytes], seconds: float) -> None:
    with suppress(OSError):  # the watcher has been ended
        while os.write(pipe, bytes([_RUNS])):
            time.sleep(seconds)


def _watch(says_after: float, ends_after: float) -> None:
    """Watch the parent of this process until that is over, which closes stdin.

    Quiet tenths of a second are counted, as a clock goes on while a terminal has stopped both processes.
    """
    for number in SIGNALS:  # a terminal sends them to both
        signal.signal(number, signal.SIG_IGN)
    parent, quiet, asked = os.getppid(), 0, None
    while os.getppid() == parent:
        if select.select([0], [], [], 0.1)[0]:
            read = os.read(0, 4096)
            if not read:
                return
            if _RUNS in read:
                quiet, asked = 0, None
            if asked is None and not set(SIGNALS).isdisjoint(read):
                asked = quiet
            continue
        quiet += 1
        if quiet == int(10 * says_after):
            _say(
                f"For {says_after:g} s nothing has run beside one of these threads, which keeps Python to itself, as a"
            )
            _say("regular expression does that backtracks. With `isolation: process` such code is ended in time.")
            os.kill(parent, signal.SIGUSR1)
        if asked is not None and quiet - asked >= 10 * ends_after:
            _say(f"It still does {ends_after:g} s after the signal, and is killed.")
            os.kill(parent, signal.SIGKILL)
            return


def _say(what: str) -> None:
    os.write(2, f"{what}\n".encode())


if __name__ == "__main__":
    _watch(*map(float, sys.argv[1:]))
