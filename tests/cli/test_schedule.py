"""`rlft schedule` as a person gives its commands; what runs is tried in tests/e2e/test_schedule.py."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from typer.testing import CliRunner

from cli import app as cli
from mlops.home.folder import Home
from mlops.schedules.store import Firing, State, find, keep, keep_state, locked
from rlft.reporting import terminal
from tests.cli.test_imports import HEAVY, imported
from tests.e2e.conftest import ROOT, TINY

WEEKLY = {"name": "weekly", "config": "tiny.yaml", "cron": "0 4 * * mon", "timezone": "Europe/Berlin"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a config, in which commands are given."""
    monkeypatch.chdir(tmp_path)
    for name in ("ZENML_LOGGING_VERBOSITY", "TRANSFORMERS_VERBOSITY", "MLFLOW_LOGGING_LEVEL"):
        monkeypatch.setenv(name, "ERROR")
    monkeypatch.delenv("RLFT_HOME", raising=False)
    monkeypatch.setattr(terminal.console, "_width", 200)
    monkeypatch.setattr(terminal.errors, "_width", 200)
    (tmp_path / "tiny.yaml").write_text(TINY.read_text())
    return tmp_path


def write(folder, **settings):
    (folder / "weekly.yaml").write_text(yaml.safe_dump(WEEKLY | settings))
    return "weekly.yaml"


def rlft(*arguments):
    result = CliRunner().invoke(cli.make_app(), ["schedule", *map(str, arguments)])
    assert "Traceback" not in result.output
    return result


def read(*arguments):
    done = rlft(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_schedule_from_its_file_to_its_end(folder):
    made = rlft("apply", write(folder))
    assert made.exit_code == 0, made.output
    assert "schedule weekly is made" in made.output
    assert "rlft schedule lines" in made.output
    [listed] = read("list")
    due = datetime.fromisoformat(listed["next"])
    assert (listed["name"], listed["state"], listed["last"], listed["when"]) == ("weekly", "active", None, "always")
    assert timedelta() < due - datetime.now(UTC) <= timedelta(days=7, hours=1)
    assert due.weekday() == 0
    assert "schedule weekly is changed" in rlft("apply", write(folder, cron="0 5 * * tue")).output
    assert read("apply", write(folder))["state"] == "active"
    assert "CET" in rlft("list").output or "CEST" in rlft("list").output
    assert "schedule weekly is deleted" in rlft("delete", "weekly").output
    assert "no schedules in" in rlft("list").output


def test_what_cannot_work_is_told_when_it_is_applied(folder):
    assert "did you mean cron?" in rlft("apply", write(folder, crom="1")).output
    absent = rlft("apply", write(folder, config="absent.yaml"))
    assert (absent.exit_code, "absent.yaml: no such file" in absent.output) == (2, True)
    wrong = rlft("apply", write(folder, promotion={"suites": {"off_distribution": {"margin": -1}}}))
    assert wrong.exit_code == 2
    assert "promotion.suites.off_distribution.margin" in wrong.output
    assert rlft("apply", write(folder, when={"score_below": {"suite": "no.yaml", "bound": 0.5}})).exit_code == 2
    assert not (folder / ".rlft/schedules").exists()


def test_a_webhook_whose_variable_is_not_set_is_told_and_its_address_is_not(folder, monkeypatch):
    monkeypatch.delenv("WEEKLY_HOOK", raising=False)
    file = write(folder, notify={"webhook": "env:WEEKLY_HOOK"})
    assert "notify.webhook needs the variable WEEKLY_HOOK" in rlft("apply", file).output
    monkeypatch.setenv("WEEKLY_HOOK", "https://hooks.example/s3cr3t-token-123456")
    done = rlft("apply", file)
    assert "warning" not in done.output
    assert "s3cr3t" not in done.output + json.dumps(read("list"))
    stored = b"".join(path.read_bytes() for path in (folder / ".rlft/schedules").iterdir() if path.is_file())
    assert b"s3cr3t" not in stored


@pytest.mark.parametrize("command", ["delete", "list", "run"])
def test_a_schedule_that_is_not_there_is_told(folder, command):
    rlft("apply", write(folder))
    more = {"run": ["--once"]}.get(command, [])
    done = rlft(command, "weakly", *more)
    assert done.exit_code == 2
    assert "there is no schedule 'weakly'" in done.output
    assert "there are: weekly" in done.output


def test_lines_are_printed_for_cron_and_systemd(folder):
    told = rlft("lines").output
    assert f"\n@reboot mkdir -p {folder}/.rlft/schedules && " in told
    assert f'"RLFT_HOME={folder}/.rlft"' in told


def test_one_look_finds_nothing_before_the_time(folder):
    rlft("apply", write(folder))
    done = rlft("run", "weekly", "--once")
    assert (done.exit_code, done.output) == (0, "nothing is due\n")


def earlier(folder, **changes):
    """Let the schedule have been applied some minutes ago, and change it."""
    home = Home(folder / ".rlft")
    since = datetime.now(UTC) - timedelta(minutes=3)
    keep(home, find(home, "weekly").model_copy(update={"since": since} | changes))
    return home


def test_a_look_that_finds_no_reason_ends_at_once_and_is_listed(folder):
    from mlops.schedules.reasons import Facts
    from rlft.files import file_hash

    rlft("apply", write(folder, when={"changed": {"files": ["tiny.yaml"]}}, cron="* * * * *"))
    home = earlier(folder)
    keep_state(home, "weekly", State(facts=Facts(values={"file tiny.yaml": file_hash("tiny.yaml")})))
    done = rlft("run", "weekly", "--once")
    assert (done.exit_code, "no reason to run: file tiny.yaml is as at the last run" in done.output) == (0, True)
    told = read("list", "weekly")
    assert [each["state"] for each in told["firings"]] == ["no_reason"]
    assert not (folder / ".rlft/runs").exists()
    assert "no reason to run" in rlft("list").output


def test_the_list_tells_what_goes_on_and_what_came_of_earlier_times(folder):
    rlft("apply", write(folder))
    home, now = Home(folder / ".rlft"), datetime.now(UTC)
    day = timedelta(days=1)
    broke = Firing(schedule="weekly", due=now - 3 * day, state="failed", said="it broke", run="weekly-1", codes=[1])
    without = Firing(schedule="weekly", due=now - 2 * day, state="no_reason", said="no reason to run: nothing new")
    going_on = Firing(schedule="weekly", due=now, reason="a person asked for it", run="weekly-2")
    keep_state(home, "weekly", State(running=going_on, past=[without, broke]))
    with locked(home, "weekly"):
        lines = [line.rstrip() for line in rlft("list", "weekly").output.splitlines()]
        [listed] = read("list")
    ends = ("running: a person asked for it", "no reason to run: nothing new", "it broke")
    assert [line.endswith(end) for line, end in zip(lines[1:], ends, strict=True)] == [True] * 3
    assert (listed["state"], listed["last"]["state"], listed["last_run"]["run"]) == ("running", "no_reason", "weekly-1")
    assert "it was cut short, and goes on at the next look" in rlft("list", "weekly").output
    assert read("list")[0]["state"] == "active"


@pytest.mark.slow
def test_the_scheduler_ends_on_sigterm_and_leaves_nothing_behind(folder):
    rlft("apply", write(folder))
    given = [sys.executable, "-m", "cli", "schedule", "run"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(given, stdout=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stdout.readline().startswith("waiting for the schedules of ")
        time.sleep(1)
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 143


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["list"], ["list", "--json"], ["run", "weekly", "--once"], ["apply", "weekly.yaml"]],
)
def test_these_import_none_of_the_large_libraries(folder, arguments):
    rlft("apply", write(folder))
    code, libraries = imported(folder, "schedule", *arguments)
    assert (code, set(libraries) & set(HEAVY)) == (0, set())
