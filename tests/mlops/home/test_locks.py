"""A lock of a file is held by one process at a time."""

from __future__ import annotations

import os
import signal
import time

import pytest

from mlops.home.processes import locked


def taken(file, seconds=0.0):
    return locked(file, seconds=seconds, refused=RuntimeError)


def hold_in_a_child(file, seconds):
    """A child that holds the lock for so long; it has it when this returns."""
    told, tell = os.pipe()
    if (pid := os.fork()) == 0:
        with taken(file):
            os.write(tell, b"x")
            time.sleep(seconds)
            os._exit(0)  # within the lock, as a process that is killed
    os.close(tell)
    assert os.read(told, 1) == b"x"
    os.close(told)
    return pid


def test_who_waits_in_vain_is_refused_and_the_holder_s_death_frees_the_lock(tmp_path):
    pid = hold_in_a_child(tmp_path / "a" / "lock", 60)
    begun = time.monotonic()
    with pytest.raises(RuntimeError), taken(tmp_path / "a" / "lock", 0.2):
        pass
    assert 0.2 <= time.monotonic() - begun < 5
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with taken(tmp_path / "a" / "lock"):
        pass


def test_who_waits_gets_it(tmp_path):
    pid = hold_in_a_child(tmp_path / "lock", 0.5)
    with taken(tmp_path / "lock", 30):
        pass
    os.waitpid(pid, 0)
