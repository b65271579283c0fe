"""What is started when, and what begins the scheduler by itself; for real in tests/e2e/test_schedule.py."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from mlops.home.folder import Home
from mlops.schedules.firing import crontab_line, start_due, systemd_unit
from mlops.schedules.store import Firing, State, keep, keep_state, locked
from tests.needs import need_crontab, need_systemd

NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def started(bench, monkeypatch):
    """Looks once, and returns the commands of the processes that it has started, which go on until `ended`."""
    begun, process = {}, SimpleNamespace(poll=lambda: None)

    def look(*names, ended=False):
        commands = []
        process.poll = lambda: 0 if ended else None
        monkeypatch.setattr("subprocess.Popen", lambda command, **_: commands.append(command[4:]) or process)
        start_due(bench.home, names, begun)
        return commands

    return look


def test_what_is_due_is_started_and_not_a_second_time_while_it_goes_on(bench, started):
    bench.apply(cron="* * * * *", now=NOW + HOUR)
    assert started() == []
    bench.apply(cron="* * * * *", now=NOW - HOUR)
    assert started("other") == []
    assert started() == [["schedule", "run", "weekly", "--once"]]
    assert started() == []
    with locked(bench.home, "weekly"):  # its run, which it left
        assert started(ended=True) == []
    assert len(started(ended=True)) == 1


def test_what_a_cluster_keeps_is_not_started(bench, started):
    stored = bench.apply(cron="* * * * *", now=NOW - HOUR)
    keep(bench.home, stored.model_copy(update={"cluster": "rlft-weekly"}))
    assert started() == []


def test_a_run_that_was_left_is_looked_after_at_once(bench, started):
    bench.apply(cron="0 4 1 1 *", now=NOW)
    keep_state(bench.home, "weekly", State(running=Firing(schedule="weekly", due=NOW)))
    assert started() == [["schedule", "run", "weekly", "--once"]]


@pytest.fixture
def home(tmp_path):
    """A home in a folder whose name systemd, cron and the shell would all read otherwise."""
    return Home(tmp_path / 'my 100% "own" $HOME' / ".rlft")


def test_the_unit_is_one_of_systemd(home, tmp_path):
    program, file = need_systemd(), tmp_path / "rlft-schedules.service"
    file.write_text(systemd_unit(home))
    done = subprocess.run([program, "verify", "--man=no", str(file)], capture_output=True, text=True)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "rlft-schedules" in line]) == (0, [])
    written = str(home.root).replace("%", "%%").replace('"', r"\"").replace("$", "$$")
    assert f'"RLFT_HOME={written}"' in file.read_text()


def test_the_line_is_one_of_cron(home, tmp_path):
    program = need_crontab()
    (tmp_path / "lines").write_text(crontab_line(home) + "\n")
    done = subprocess.run([program, "-n", str(tmp_path / "lines")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_shell_reads_the_line_as_it_is_meant(home, monkeypatch):
    monkeypatch.setattr(
        "mlops.schedules.firing.rlft_command", lambda *words: ["sh", "-c", "echo $RLFT_HOME; echo $0 $1", *words]
    )
    command = crontab_line(home).removeprefix("@reboot ").replace(r"\%", "%")  # as cron hands it to the shell
    subprocess.run(["sh", "-c", command], check=True, env={"PATH": os.environ["PATH"]})
    log = home.root / "schedules/scheduler.log"
    assert log.read_text().splitlines() == [str(home.root), "schedule run"]
