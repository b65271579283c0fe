"""A command that leaves has done all that Python does at its end, but for taking its modules apart."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.e2e.conftest import ROOT

# `Kept` is one of what Python takes apart at its end. The functions of `atexit` are called last in, first out.
PROGRAM = """
import atexit, gc, os, sys, threading, time
from cli.__main__ import console_script

class Kept:
    def __del__(self):
        os.write(1, b"taken apart\\n")

def late():
    time.sleep(0.3)
    print("the thread is done", gc.get_threshold()[0])

def at_the_end():
    print("said at the end")

sys.meta_path.insert(0, type("Finder", (), dict(find_spec=lambda *_: atexit.register(at_the_end) and None))())
kept = Kept()
threading.Thread(target=late).start()
console_script({arguments!r})
"""


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["--nothing"], 2)])
def test_threads_and_functions_are_waited_for_and_all_is_written(arguments, code):
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", PROGRAM.format(arguments=arguments)]
    done = subprocess.run(command, cwd=ROOT, env=buffered, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code
    assert "the thread is done 10000\n" in done.stdout  # Python's own 700 takes a quarter of the time of the imports
    assert "said at the end\n" in done.stdout
    assert ("Usage" in done.stdout + done.stderr, "taken apart" in done.stdout) == (True, False)
