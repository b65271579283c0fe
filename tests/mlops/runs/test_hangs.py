"""Code that keeps Python's interpreter to itself: it is said where that is, and a signal ends the process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests.e2e.conftest import ROOT

PROGRAM = """
import re, signal, sys, threading, time
from mlops.runs.hangs import watch_for_hangs

def backtracks():
    re.match("(a+)+b", "a" * 40)  # 2^40 ways to part the letters

signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
watch_for_hangs(1.0, 0.5)
print("watched", flush=True)
if "hangs" in sys.argv:
    threading.Thread(target=backtracks, daemon=True).start()
time.sleep(60)
"""


@pytest.mark.parametrize(("how", "code", "said"), [("hangs", -signal.SIGKILL, 1), ("waits", 7, 0)])
def test_where_code_hangs_is_said_and_sigterm_ends_it(how, code, said):
    command = [sys.executable, "-c", PROGRAM, how]
    process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(2)  # twice as long as may pass without a word
    process.terminate()
    started = time.monotonic()
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors.count("in backtracks")) == (code, said), errors
    assert time.monotonic() - started < 10  # half a second, and what a busy machine adds
