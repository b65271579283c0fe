"""The line for a crontab and the unit for systemd, checked with cron's and systemd's own programs."""

from __future__ import annotations

import os
import subprocess

import pytest

from mlops.home.folder import Home
from mlops.schedules import scheduler
from mlops.schedules.scheduler import crontab_line, systemd_unit
from tests.needs import need_crontab, need_systemd


@pytest.fixture
def home(tmp_path):
    """A home in a folder whose name systemd, cron and the shell would all read otherwise."""
    root = tmp_path / 'my 100% "own" $HOME' / ".rlft"
    root.mkdir(parents=True)
    return Home(root)


def test_the_unit_is_one_of_systemd(home, tmp_path):
    program, file = need_systemd(), tmp_path / "rlft-schedules.service"
    file.write_text(systemd_unit(home))
    done = subprocess.run([program, "verify", "--man=no", str(file)], capture_output=True, text=True)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "rlft-schedules" in line]) == (0, [])
    written = str(home.root).replace("%", "%%")
    assert f"WorkingDirectory={written}/\n" in file.read_text()
    quoted = written.replace('"', '\\"')
    assert f'Environment="RLFT_HOME={quoted}"\n' in file.read_text()


def test_the_line_is_one_of_cron(home, tmp_path):
    program = need_crontab()
    (tmp_path / "lines").write_text(crontab_line(home) + "\n")
    done = subprocess.run([program, "-n", str(tmp_path / "lines")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_shell_reads_the_line_as_it_is_meant(home, monkeypatch):
    monkeypatch.setattr(
        scheduler, "rlft_command", lambda *words: ["sh", "-c", "pwd; echo $RLFT_HOME; echo $0 $1", *words]
    )
    command = crontab_line(home).removeprefix("@reboot ").replace(r"\%", "%")  # as cron hands it to the shell
    subprocess.run(["sh", "-c", command], check=True, env={"PATH": os.environ["PATH"]})
    log = home.root / "schedules/logs/scheduler.log"
    assert log.read_text().splitlines() == [str(home.root), str(home.root), "schedule run"]
