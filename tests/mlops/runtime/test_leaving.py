"""A process that leaves has done all that Python does at its end, but for taking its modules apart."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.e2e.conftest import ROOT

# `Kept` is one of what Python takes apart at its end. The functions of `atexit` are called last in, first out.
PROGRAM = """
import atexit, os, sys, threading, time
from mlops.runtime.leaving import leave
from mlops.runtime.signals import Interrupt

class Kept:
    def __del__(self):
        os.write(1, b"taken apart\\n")

def late():
    time.sleep(0.3)
    print("the thread is done")

Interrupt().install()
kept = Kept()
atexit.register(print, "said at the end")
threading.Thread(target=late).start()
sys.stderr.write("an error")
leave(7)
"""


def run(program: str, **files) -> subprocess.CompletedProcess[str]:
    files = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | files
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, env=buffered, text=True, check=False, timeout=60, **files)


def test_threads_and_functions_are_waited_for_and_all_is_written():
    done = run(PROGRAM)
    assert (done.returncode, done.stderr) == (7, "an error")
    assert done.stdout == "the thread is done\nsaid at the end\n"


def test_what_cannot_be_written_is_told_by_pythons_own_end():
    with open("/dev/full", "w") as full:
        done = run("from mlops.runtime.leaving import leave\nprint('lost')\nleave(7)", stdout=full)
    assert done.returncode == 120  # what Python ends with where it cannot write what was printed
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["--nothing"], 2)])
def test_a_command_ends_so_with_its_code(arguments, code):
    program = f"""
import atexit, gc, os
atexit.register(lambda: print(gc.get_threshold()[0]))
class Kept:
    def __del__(self):
        os.write(1, b"taken apart\\n")
kept = Kept()
from cli.__main__ import console_script
console_script({arguments!r})
"""
    done = run(program)
    assert done.returncode == code
    assert done.stdout.endswith("10000\n")  # Python's own 700 takes a quarter of the time of the imports
    assert ("Usage" in done.stdout + done.stderr, "taken apart" in done.stdout) == (True, False)
