"""Files for systemd and lines for cron, checked with systemd's and cron's own programs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from mlops.home.folder import Home
from mlops.schedules import units
from mlops.schedules.store import apply_schedule
from mlops.schedules.units import calendar, cron_lines, install_cron, installed_in_cron, systemd_units, unit_name
from rlft.errors import ConfigError
from rlft.schedule.cron import read_cron
from rlft.schedule.times import next_due
from tests.mlops.schedules.conftest import CONTENT, MONDAY
from tests.needs import need_crontab, need_systemd

CRONS = [
    "0 4 * * mon",
    "*/15 8-18 * * mon-fri",
    "30 2 1,15 * *",
    "5 * * 1-6/2 *",
    "* * * * *",
    "0 12 29 2 *",
    "7 7 * * 0,6",
]


@pytest.fixture
def stored(tmp_path):
    """A schedule in a folder whose name systemd and cron would both read otherwise."""
    folder = tmp_path / 'my 100% "own" $HOME'
    folder.mkdir()
    return apply_schedule(Home(folder / ".rlft"), CONTENT | {"timezone": "Europe/Berlin"}, folder, MONDAY)


def home_of(stored) -> Home:
    return Home(stored.folder / ".rlft")


def write_units(stored, place):
    """The units in a folder, and their paths as words."""
    found = systemd_units(home_of(stored), stored)
    for name, text in found.items():
        (place / name).write_text(text)
    return [str(place / name) for name in found]


def unit(stored, kind: str) -> str:
    return systemd_units(home_of(stored), stored)[f"{unit_name(home_of(stored), stored.name)}.{kind}"]


def test_the_units_are_those_of_systemd(stored, tmp_path):
    program = need_systemd()
    files = write_units(stored, tmp_path)
    done = subprocess.run([program, "verify", "--man=no", *files], capture_output=True, text=True)
    ours = [line for line in done.stderr.splitlines() if "rlft-weekly" in line]
    assert (done.returncode, ours) == (0, [])


def test_a_broken_unit_is_refused_by_that_check(stored, tmp_path):
    program = need_systemd()
    text = unit(stored, "timer").replace("OnCalendar=Mon", "OnCalendar=Monn")
    (tmp_path / "rlft-weekly.timer").write_text(text)
    done = subprocess.run(
        [program, "verify", "--man=no", str(tmp_path / "rlft-weekly.timer")], capture_output=True, text=True
    )
    assert "rlft-weekly.timer" in done.stderr


def test_the_service_runs_in_the_folder_with_the_home(stored):
    text = unit(stored, "service")
    folder = str(stored.folder).replace("%", "%%")
    assert f"WorkingDirectory={folder}/\n" in text
    quoted = folder.replace('"', '\\"')
    assert f'Environment="RLFT_HOME={quoted}/.rlft"\n' in text
    assert re.search(
        r'^ExecStart="/.*python.*" "-P" "-m" "cli" "schedule" "run" "weekly" "--once"$', text, re.MULTILINE
    )


@pytest.mark.parametrize("end", ["\\", " "])
def test_the_end_of_a_folders_name_means_nothing_to_systemd(tmp_path, end):
    program, folder = need_systemd(), tmp_path / f"mine{end}"
    folder.mkdir()
    stored = apply_schedule(Home(folder / ".rlft"), CONTENT, folder, MONDAY)
    files = write_units(stored, tmp_path)
    done = subprocess.run([program, "verify", "--man=no", *files], capture_output=True, text=True)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "rlft-weekly" in line]) == (0, [])
    # systemd joins a line that ends with a backslash with the next, and takes no blank at an end
    assert f"WorkingDirectory={folder}/\nEnvironment=" in unit(stored, "service")


def test_schedules_of_one_name_in_two_homes_have_their_own_units(tmp_path):
    names = set()
    for place in ("first", "second"):
        (tmp_path / place).mkdir()
        stored = apply_schedule(Home(tmp_path / place / ".rlft"), CONTENT, tmp_path / place, MONDAY)
        names |= set(systemd_units(home_of(stored), stored))
    assert len(names) == 4


@pytest.mark.parametrize("cron", CRONS)
def test_systemd_finds_the_times_that_we_find(cron):
    program = need_systemd()
    fields, zone = read_cron(cron), ZoneInfo("Europe/Berlin")
    after = datetime(2026, 11, 26, 3, 4, 5, tzinfo=UTC)
    done = subprocess.run(
        [
            program,
            "calendar",
            "--iterations=4",
            f"--base-time={after:%Y-%m-%d %H:%M:%S} UTC",
            calendar(fields, "Europe/Berlin"),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "TZ": "UTC", "LC_ALL": "C"},
        check=True,
    )
    shown = re.findall(r"(?:elapse|#\d+): \w{3} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC", done.stdout)
    ours = [next_due(fields, zone, after)]
    while len(ours) < 4:
        ours.append(next_due(fields, zone, ours[-1]))
    assert shown == [f"{moment:%Y-%m-%d %H:%M:%S}" for moment in ours]


def test_systemd_leaves_out_a_time_that_the_clock_skips():
    """So that the page says what is: a look the day after finds what was due when the clock had gone forward."""
    program = need_systemd()
    done = subprocess.run(
        [program, "calendar", "--base-time=2026-03-28 12:00:00 UTC", "*-*-* 02:30:00 Europe/Berlin"],
        capture_output=True,
        text=True,
        env={**os.environ, "TZ": "UTC", "LC_ALL": "C"},
        check=True,
    )
    assert "Mon 2026-03-30 00:30:00 UTC" in done.stdout  # not on the 29th
    ours = next_due(read_cron("30 2 * * *"), ZoneInfo("Europe/Berlin"), datetime(2026, 3, 28, 12, tzinfo=UTC))
    assert ours == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC"])
def test_the_lines_are_those_of_cron(stored, tmp_path, zone):
    program = need_crontab()
    (tmp_path / "lines").write_text("\n".join(cron_lines(home_of(stored), stored, zone)) + "\n")
    done = subprocess.run([program, "-n", str(tmp_path / "lines")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_broken_line_is_refused_by_that_check(tmp_path):
    program = need_crontab()
    (tmp_path / "lines").write_text("0 25 * * * true\n")
    assert subprocess.run([program, "-n", str(tmp_path / "lines")], capture_output=True).returncode != 0


def test_a_line_for_the_machines_own_zone_is_the_schedules_and_one_for_another_looks_every_quarter(stored):
    own, boot = cron_lines(home_of(stored), stored, "Europe/Berlin")
    assert own.startswith("0 4 * * 1 cd ")
    assert boot.startswith("@reboot cd ")
    other, _ = cron_lines(home_of(stored), stored, "Asia/Kathmandu")
    assert other.startswith("0,15,30,45 * * * * cd ")
    rome, _ = cron_lines(home_of(stored), stored, "Europe/Rome")  # which has Berlin's clock
    assert rome == own


def test_the_shell_reads_the_line_as_it_is_meant(stored, tmp_path):
    line, _ = cron_lines(home_of(stored), stored, "Europe/Berlin")
    command = line.removeprefix("0 4 * * 1 ").replace(r"\%", "%")  # as cron hands it to the shell
    shown = tmp_path / "shown"
    words = shlex.join(units._command(stored))
    command = command.replace(words, f"sh -c 'pwd; echo $RLFT_HOME' > {shown}", 1).replace(">> ", "; : >> ", 1)
    # No shell reads the variables: what stands in them would be run.
    (stored.folder / ".rlft/schedules/weekly.env").write_text(f"HOOK=a&b$(touch {tmp_path}/ran)\n")
    subprocess.run(["sh", "-c", command], check=False, env={"PATH": os.environ["PATH"]})
    assert shown.read_text().splitlines() == [str(stored.folder), f"{stored.folder}/.rlft"]
    assert not (tmp_path / "ran").exists()


def test_lines_take_the_place_of_earlier_ones_and_leave_others(stored, monkeypatch, tmp_path):
    spool = tmp_path / "spool"
    spool.write_text("0 1 * * * backup\n5 5 * * * rlft schedule run other --once # rlft schedule other of 1\n")
    program = tmp_path / "bin" / "crontab"  # a stand-in: a test must not write the crontab of whoever runs it
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = -l ]; then cat {spool}; else cat > {spool}.new && mv {spool}.new {spool}; fi\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    home = home_of(stored)
    assert not installed_in_cron(home, "weekly")
    for zone in ("UTC", "Europe/Berlin"):
        install_cron(home, stored, cron_lines(home, stored, zone))
    lines = spool.read_text().splitlines()
    assert lines[:2] == ["0 1 * * * backup", "5 5 * * * rlft schedule run other --once # rlft schedule other of 1"]
    assert [line.split(" cd ")[0] for line in lines[2:]] == ["0 4 * * 1", "@reboot"]
    assert installed_in_cron(home, "weekly")


def test_paths_that_no_unit_and_no_line_can_hold_are_refused(tmp_path):
    folder = tmp_path / "two\nlines"
    folder.mkdir()
    found = apply_schedule(Home(folder / ".rlft"), CONTENT, folder, MONDAY)
    for make in (lambda: systemd_units(home_of(found), found), lambda: cron_lines(home_of(found), found, "UTC")):
        with pytest.raises(ConfigError, match="holds a character that cannot be seen"):
            make()


def test_a_line_that_is_too_long_for_cron_is_refused(tmp_path):
    folder = tmp_path / "/".join(["a" * 150] * 2)  # SQLite takes paths of 512 characters
    folder.mkdir(parents=True)
    found = apply_schedule(Home(folder / ".rlft"), CONTENT, folder, MONDAY + timedelta(hours=1))
    with pytest.raises(ConfigError, match=r"too long for a line of cron(.|\n)*--systemd"):
        cron_lines(home_of(found), found, "UTC")
