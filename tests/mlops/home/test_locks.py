"""A lock of a file is held by one process at a time, and whoever waits in vain is told by whom."""

from __future__ import annotations

import logging
import os
import signal
import time

import pytest

from mlops.home import processes as locks
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


def test_the_holder_is_named_and_its_death_frees_the_lock(tmp_path):
    pid = hold_in_a_child(tmp_path / "a" / "lock", 60)
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match=f"^process {pid}$"), taken(tmp_path / "a" / "lock", 0.2):
        pass
    assert 0.2 <= time.monotonic() - begun < 5
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with taken(tmp_path / "a" / "lock"):
        assert (tmp_path / "a" / "lock").read_text() == f"{os.getpid()}\n"


def test_who_waits_gets_it_and_says_for_whom_it_waits(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(locks, "_SILENT_SECONDS", 0.1)
    caplog.set_level(logging.INFO, locks.__name__)
    pid = hold_in_a_child(tmp_path / "lock", 0.5)
    with taken(tmp_path / "lock", 30):
        pass
    os.waitpid(pid, 0)
    assert [record.getMessage() for record in caplog.records] == [
        f"waiting for process {pid}, which holds {tmp_path / 'lock'}"
    ]


def test_a_lock_that_was_left_to_a_child_is_another_process_s(tmp_path):
    with taken(tmp_path / "lock"):
        (tmp_path / "lock").write_text("999999999\n")  # no process has so high a number
        with pytest.raises(RuntimeError, match=r"^another process$"), taken(tmp_path / "lock"):
            pass
