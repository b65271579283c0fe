"""The lock of a schedule, which a run holds longer than the process that has begun it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from mlops.schedules.lock import is_held, schedule_lock
from tests.e2e.conftest import ROOT

HOLDING = """
import subprocess, sys, time
from pathlib import Path
from mlops.home.folder import Home
from mlops.schedules.lock import schedule_lock
with schedule_lock(Home(Path(sys.argv[1])), "weekly", lambda: False) as lock:
    run = subprocess.Popen([sys.executable, "-c", "input()"], stdin=sys.stdin, pass_fds=(lock,))
    print(run.pid, flush=True)
    time.sleep(60)
"""


def test_the_lock_of_a_killed_process_is_held_until_its_run_ends(bench):
    bench.apply()
    given = [sys.executable, "-c", HOLDING, str(bench.home.root)]
    with subprocess.Popen(given, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert int(holder.stdout.readline()) > 0
        assert is_held(bench.home, "weekly")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert is_held(bench.home, "weekly")
        with schedule_lock(bench.home, "weekly", lambda: False) as lock:
            assert lock is None
        holder.stdin.close()  # by which the run ends
    until = time.monotonic() + 30
    while is_held(bench.home, "weekly") and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_held(bench.home, "weekly")


def test_one_who_waits_has_it_when_the_other_has_ended(bench):
    bench.apply()
    waits: list[int] = []
    with schedule_lock(bench.home, "weekly", lambda: False) as first:
        assert first is not None

        def pause() -> bool:
            waits.append(len(waits))
            return len(waits) < 3

        with schedule_lock(bench.home, "weekly", pause) as second:
            assert second is None
    assert waits == [0, 1, 2]
    with schedule_lock(bench.home, "weekly", pause) as third:
        assert third is not None


def test_schedules_do_not_share_a_lock(bench):
    bench.apply()
    with schedule_lock(bench.home, "weekly", lambda: False):
        assert not is_held(bench.home, "other")
        with schedule_lock(bench.home, "other", lambda: False) as lock:
            assert lock is not None
