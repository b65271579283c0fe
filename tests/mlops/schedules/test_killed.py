"""What is left when the process that looks after a run is killed, with real processes and a stand-in for the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from mlops.schedules.lock import is_held
from tests.e2e.conftest import ROOT
from tests.mlops.schedules.conftest import MONDAY


def started(bench, number, *more) -> subprocess.Popen:
    given = [
        sys.executable,
        "-m",
        "tests.mlops.schedules.killed",
        str(bench.home.root),
        str(number),
        str(bench.place),
        *more,
    ]
    return subprocess.Popen(given, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


def wait_for(fact, seconds=60):
    until = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.02)


def began(bench) -> int:
    file = bench.place / "began"
    return len(file.read_text().splitlines()) if file.is_file() else 0


def test_a_run_that_went_on_is_waited_for_and_begun_once(bench):
    bench.apply()
    [firing] = bench.look(MONDAY)
    with started(bench, firing.id) as first:
        wait_for(lambda: began(bench) == 1)
        first.send_signal(signal.SIGKILL)
    assert bench.states() == ["running"]
    assert [each.id for each in bench.look(MONDAY)] == [firing.id]  # nobody looks after it, and a scheduler sees that
    with started(bench, firing.id) as second:
        time.sleep(0.5)
        assert second.poll() is None
        (bench.place / "go").touch()
        assert second.wait() == 0
    assert (began(bench), bench.states()) == (1, ["finished"])


@pytest.mark.parametrize(("moment", "runs"), [("before", 0), ("after", 1)])
def test_a_kill_at_the_start_of_the_run_leaves_one_run_at_last(bench, moment, runs):
    bench.apply()
    [firing] = bench.look(MONDAY)
    with started(bench, firing.id, moment) as first:
        assert first.wait() == -signal.SIGKILL
    if runs:
        wait_for(lambda: began(bench) == 1)
    assert is_held(bench.home, "weekly") == bool(runs)
    (bench.place / "go").touch()
    with started(bench, firing.id) as second:
        assert second.wait() == 0
    assert (began(bench), bench.states()) == (1, ["finished"])


def test_two_that_look_after_a_firing_at_once_make_one_run(bench):
    bench.apply()
    [firing] = bench.look(MONDAY)
    (bench.place / "go").touch()
    with started(bench, firing.id) as first, started(bench, firing.id) as second:
        assert (first.wait(), second.wait()) == (0, 0)
    assert (began(bench), bench.states()) == (1, ["finished"])


def test_sigterm_ends_the_run_and_leaves_it_to_be_gone_on_with(bench):
    bench.apply()
    [firing] = bench.look(MONDAY)
    with started(bench, firing.id) as first:
        wait_for(lambda: began(bench) == 1)
        os.kill(first.pid, signal.SIGTERM)
        first.wait()
    # A process without a handler of its own dies at once; its run holds the lock until it ends by itself.
    assert bench.states() == ["running"]
    (bench.place / "go").touch()
    wait_for(lambda: not is_held(bench.home, "weekly"))
