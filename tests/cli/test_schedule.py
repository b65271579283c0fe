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
from mlops.display import terminal
from mlops.home.folder import Home
from mlops.schedules import store
from mlops.schedules.firings import change, fire_now
from mlops.schedules.lock import schedule_lock
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
    result = CliRunner().invoke(cli.app, ["schedule", *map(str, arguments)])
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
    assert read("pause", "weekly")["state"] == "paused"
    assert read("list")[0]["next"] is None
    assert "paused" in rlft("list").output
    assert read("resume", "weekly")["state"] == "active"
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
    stored = b"".join(path.read_bytes() for path in (folder / ".rlft/schedules").iterdir())
    assert b"s3cr3t" not in stored


@pytest.mark.parametrize("command", ["pause", "resume", "delete", "run-now", "list", "run"])
def test_a_schedule_that_is_not_there_is_told(folder, command):
    rlft("apply", write(folder))
    more = {"run": ["--once"]}.get(command, [])
    done = rlft(command, "weakly", *more)
    assert done.exit_code == 2
    assert "there is no schedule 'weakly'" in done.output
    assert "there are: weekly" in done.output


def test_lines_are_printed_for_cron_and_systemd(folder):
    told = read("lines")
    assert told["crontab"].startswith(f"@reboot cd {folder}/.rlft && ")
    assert told["crontab"] in rlft("lines").output
    assert f'Environment="RLFT_HOME={folder}/.rlft"' in told["systemd"]


def test_a_run_that_goes_on_is_not_begun_by_hand_too(folder):
    rlft("apply", write(folder))
    with schedule_lock(Home(folder / ".rlft"), "weekly", lambda: False):
        done = rlft("run-now", "weekly")
    assert (done.exit_code, "a run of weekly goes on" in done.output) == (2, True)


def test_one_look_finds_nothing_before_the_time(folder):
    rlft("apply", write(folder))
    done = rlft("run", "weekly", "--once")
    assert (done.exit_code, done.output) == (0, "nothing is due\n")


def test_a_look_that_finds_no_reason_ends_at_once_and_is_listed(folder):
    rlft("apply", write(folder, when={"changed": {"files": ["tiny.yaml"]}}, cron="* * * * *"))
    home = Home(folder / ".rlft")
    from rlft.files import file_hash
    from rlft.schedule.reasons import Facts

    with store.opened(home) as opened:
        store.keep_facts(opened, "weekly", Facts(values={"file tiny.yaml": file_hash("tiny.yaml")}))
        earlier = store.as_text(datetime.now(UTC) - timedelta(minutes=2))
        opened.execute("UPDATE schedules SET looked = ?", (earlier,))
    began = time.monotonic()
    done = rlft("run", "weekly", "--once")
    assert (done.exit_code, "no reason to run: file tiny.yaml is as at the last run" in done.output) == (0, True)
    assert time.monotonic() - began < 60  # about two seconds on a machine of its own
    told = read("list", "weekly")
    assert [each["state"] for each in told["firings"]] == ["no_reason"]
    assert not (folder / ".rlft/runs").exists()
    assert "no reason to run" in rlft("list").output


def test_due_times_that_a_change_leaves_out_are_told(folder):
    rlft("apply", write(folder, cron="* * * * *"))
    with store.opened(Home(folder / ".rlft")) as opened:
        opened.execute("UPDATE schedules SET looked = ?", (store.as_text(datetime.now(UTC) - timedelta(minutes=3)),))
    again = rlft("apply", write(folder, cron="* * * * *", retries={"count": 0}))
    assert "nothing has looked" not in again.output
    changed = rlft("apply", write(folder, cron="0 5 * * tue"))
    assert "by its times of before it was due on" in changed.output
    assert "`rlft schedule run-now weekly` makes a run for it" in changed.output
    assert "nothing has looked" not in rlft("apply", write(folder, cron="0 6 * * tue")).output


def test_a_schedule_whose_row_is_damaged_is_named_repaired_and_deleted(folder):
    rlft("apply", write(folder))
    (folder / "other.yaml").write_text(yaml.safe_dump(WEEKLY | {"name": "other"}))
    rlft("apply", "other.yaml")
    home = Home(folder / ".rlft")
    with store.opened(home) as opened:
        fire_now(opened, "weekly", datetime.now(UTC))
        opened.execute("UPDATE schedules SET content = '{' WHERE name = 'weekly'")
        opened.execute("UPDATE firings SET tries = '{' WHERE schedule = 'weekly'")
    listed = rlft("list")
    assert (listed.exit_code, "other" in listed.output) == (0, True)
    assert (rlft("run", "--once").exit_code, rlft("pause", "weekly").exit_code) == (0, 2)
    assert "schedule weekly is" in rlft("apply", write(folder)).output
    assert [each["name"] for each in read("list")] == ["other", "weekly"]
    with store.opened(home) as opened:
        assert not list(opened.execute("SELECT * FROM firings"))
        opened.execute("UPDATE schedules SET content = '{' WHERE name = 'weekly'")
    assert "schedule weekly is deleted" in rlft("delete", "weekly").output
    assert [each["name"] for each in read("list")] == ["other"]


def test_what_goes_on_is_listed_with_its_reason(folder):
    rlft("apply", write(folder))
    with store.opened(Home(folder / ".rlft")) as opened:
        fire_now(opened, "weekly", datetime.now(UTC))
    assert read("list")[0]["state"] == "running"
    assert "due" in rlft("list", "weekly").output


@pytest.mark.parametrize("state", ["looking", "running", "waiting"])
def test_what_was_killed_is_not_listed_as_going_on(folder, state):
    rlft("apply", write(folder))
    home = Home(folder / ".rlft")
    with store.opened(home) as opened:
        firing = fire_now(opened, "weekly", datetime.now(UTC))
        opened.execute("UPDATE firings SET origin = 'clock'")
        change(opened, firing.id, state=state, reason="it runs at every due time", watcher="1 0.0")
    assert read("list")[0]["state"] == "active"
    [told] = read("list", "weekly")["firings"]
    assert (told["state"], told["is_watched"]) == (state, False)
    for listed in (rlft("list").output, rlft("list", "weekly").output):
        assert f"{state}, and was cut short: it goes on as soon as something looks" in listed
    with schedule_lock(home, "weekly", lambda: False):  # its run goes on alone
        assert read("list")[0]["state"] == "running"
        assert "cut short" not in rlft("list").output


def test_what_a_person_asked_for_and_gave_up_is_listed_so(folder):
    rlft("apply", write(folder))
    with store.opened(Home(folder / ".rlft")) as opened:
        change(opened, fire_now(opened, "weekly", datetime.now(UTC)).id, watcher="1 0.0")
    assert read("list")[0]["state"] == "active"
    assert "cut short, and is not run" in rlft("list").output


def test_the_list_tells_what_goes_on_and_the_last_run_beside_later_looks(folder):
    rlft("apply", write(folder))
    home, now = Home(folder / ".rlft"), datetime.now(UTC)
    ends = [("failed", '[["weekly-1", "then", 1]]', "it broke"), ("no_reason", "[]", "no reason to run: nothing new")]
    with store.opened(home) as opened:
        for days, (state, tries, said) in zip((3, 2), ends, strict=True):
            firing = fire_now(opened, "weekly", now - timedelta(days=days))
            change(opened, firing.id, state=state, said=said, ended=now - timedelta(days=days))
            opened.execute("UPDATE firings SET tries = ? WHERE id = ?", (tries, firing.id))
        going_on = fire_now(opened, "weekly", now - timedelta(days=1))
        change(opened, going_on.id, state="running", reason="a person asked for it")
        later = fire_now(opened, "weekly", now)
        change(opened, later.id, state="skipped", said="another run of this schedule went on", ended=now)
    lines = rlft("list").output.splitlines()
    order = ("running: a person asked for it", "another run of this schedule went on", "it broke")
    assert [line.rstrip().endswith(said) for line, said in zip(lines[1:], order, strict=True)] == [True] * 3
    [listed] = read("list")
    assert (listed["state"], listed["last"]["id"], listed["last_run"]["run"]) == ("running", later.id, "weekly-1")


def test_a_file_of_tasks_that_is_not_there_is_told_when_a_schedule_is_applied(folder):
    config = yaml.safe_load((folder / "tiny.yaml").read_text())
    config["tasks"] = {"source": "jsonl", "path": "gone.jsonl"}
    (folder / "tiny.yaml").write_text(yaml.safe_dump(config))
    made = rlft("apply", write(folder))
    assert made.exit_code == 0, made.output
    assert "tasks.path: gone.jsonl: no such file" in made.output
    assert "a run fails unless it is there when the schedule is due" in made.output


def test_the_scheduler_ends_on_sigterm_and_leaves_nothing_behind(folder):
    rlft("apply", write(folder))
    given = [sys.executable, "-m", "cli", "schedule", "run"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(given, stdout=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stdout.readline().startswith("waiting for the schedules of ")
        time.sleep(1)
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 143
    assert sorted(path.name for path in (folder / ".rlft/schedules").iterdir()) == ["schedules.db"]


@pytest.mark.parametrize("another", [False, True])
def test_the_scheduler_does_not_outlive_its_home(folder, another):
    rlft("apply", write(folder))
    code = "from mlops.schedules import scheduler; scheduler.LOOK_SECONDS = 1; from cli.app import app; app()"
    given = [sys.executable, "-c", code, "schedule", "run"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(given, stdout=-1, stderr=subprocess.STDOUT, text=True, env=environment) as running:
        assert running.stdout.readline().startswith("waiting for the schedules of ")
        time.sleep(2)
        (folder / ".rlft").rename(folder / "moved")
        if another:
            rlft("apply", "weekly.yaml")  # which makes a home anew
        assert running.wait(30) == 1
        assert "was moved away or removed, and its schedules with it" in running.stdout.read().replace("\n", " ")
    assert (folder / ".rlft").exists() == another


@pytest.mark.parametrize(
    "arguments",
    [["list"], ["list", "--json"], ["pause", "weekly"], ["run", "weekly", "--once"], ["apply", "weekly.yaml"]],
)
def test_these_import_none_of_the_large_libraries(folder, arguments):
    rlft("apply", write(folder))
    code, libraries = imported(folder, "schedule", *arguments)
    assert (code, set(libraries) & set(HEAVY)) == (0, set())
