"""What the doctor says of this machine is what a run meets."""

import json
import platform
import re
import sqlite3
import subprocess
from dataclasses import asdict

import pytest
from typer.testing import CliRunner

from cli import doctor
from cli.app import app
from cli.doctor import Finding, _device, _ends, _packages, _runs, _sandbox
from mlops.clone import PROJECT
from mlops.home.databases import all_runs_ended
from mlops.home.folder import Home
from mlops.home.processes import Note, note_process
from rlft.errors import EnvironmentSetupError
from rlft.sandbox import create


def test_a_sandbox_that_environments_could_not_use_is_not_called_one(monkeypatch):
    def refuses():
        raise EnvironmentSetupError("user namespaces are forbidden", where="sandbox", fix="allow them")

    monkeypatch.setattr(create, "Bubblewrap", refuses)
    found = _sandbox()
    assert found.what == "user namespaces are forbidden: environments that run a model's code will not start"
    assert found.fix.startswith("allow them; or write sandbox: none")


@pytest.mark.usefixtures("bubblewrap")
def test_a_sandbox_is_found_where_environments_find_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _sandbox().what.startswith("bubblewrap")


def test_the_way_out_of_a_wrong_version_does_something_after_make_setup(monkeypatch):
    # `make setup` says that nothing is to be done: nothing that it was made from is newer. -W takes base.txt for new.
    found = {"setuptools": "65.5.0"}
    monkeypatch.setattr(doctor, "version", lambda name: found.get(name) or _pinned(name))
    [finding] = list(_packages())
    assert finding.what == f"setuptools is 65.5.0, tested with {_pinned('setuptools')}"
    assert finding.fix == "make -W requirements/base.txt setup"
    assert re.search(r"^\$\(BASE\):.* requirements/base.txt ", (PROJECT / "Makefile").read_text(), re.MULTILINE)


def test_an_override_does_not_undo_a_pin():
    # uv puts an override in the place of every requirement of that name, base.txt's own among them.
    for line in (PROJECT / "requirements" / "overrides.txt").read_text().splitlines():
        name = re.match(r"[\w.-]+", line)
        if name and "sys_platform == 'never'" not in line:
            assert line == f"{name[0]}=={_pinned(name[0])}"


def _pinned(name: str) -> str:
    [version] = re.findall(
        rf"^{re.escape(name)}==(\S+)", (PROJECT / "requirements" / "base.txt").read_text(), re.MULTILINE
    )
    return version


def test_a_machine_that_can_have_no_gpu_is_told_so_without_torch(monkeypatch):
    monkeypatch.setattr(doctor, "why_no_gpu", lambda: "torch is built for CPUs alone")
    assert _device().what.endswith("no GPU: torch is built for CPUs alone")


@pytest.mark.parametrize(
    ("statuses", "ended"),
    [
        ([], True),
        (["completed", "failed", "cached", "stopped"], True),
        (["completed", "running"], False),
        (["initializing"], False),
        (["a status of another version"], False),  # ZenML itself is asked what it means
    ],
)
def test_zenml_is_asked_only_where_a_run_may_go_on(tmp_path, statuses, ended):
    home = Home(tmp_path)
    assert not all_runs_ended(home)  # no database
    file = tmp_path / "zenml" / "local_stores" / "default_zen_store" / "zenml.db"
    file.parent.mkdir(parents=True)
    with sqlite3.connect(file) as database:
        assert not all_runs_ended(home)  # no table
        database.execute("CREATE TABLE pipeline_run (id TEXT, status TEXT)")
        database.executemany("INSERT INTO pipeline_run VALUES ('x', ?)", [(status,) for status in statuses])
    assert all_runs_ended(home) is ended


def test_what_ran_when_a_process_ended_is_told_until_the_run_is_resumed(tmp_path, monkeypatch):
    assert list(_ends(Home(tmp_path))) == []
    monkeypatch.setattr(doctor, "ends_left", lambda home: {"my run": "the process ended while tool look ran"})
    [finding] = _ends(Home(tmp_path))
    assert finding == Finding("warning", "my run: the process ended while tool look ran", "rlft resume 'my run'")


@pytest.mark.parametrize("summary", ['{"status": "running", "seconds": {"total": 0.0}}', '{"status": "runn', ""])
def test_a_summary_that_was_left_running_or_damaged_says_that_the_run_was_killed(tmp_path, summary, monkeypatch):
    monkeypatch.setattr(doctor, "all_runs_ended", lambda home: True)
    (tmp_path / "zenml").mkdir()
    home = Home(tmp_path)
    note_process(home, "a-1", "first")
    assert [finding.state for finding in _runs(home)] == ["ok"]  # this process lives
    with subprocess.Popen(["true"]) as dead:
        pass
    (tmp_path / "runs" / "a-1.process.json").write_text(json.dumps(asdict(Note("a-1", "first", dead.pid, 1.0))))
    home.summary_file("a-1").write_text(summary)
    [finding] = _runs(home)
    assert (finding.state, finding.fix) == ("warning", "rlft resume first")
    left = json.loads(home.summary_file("a-1").read_text())
    assert (left["status"], left["error"]) == ("failed", "the process was killed")
    assert [finding.state for finding in _runs(home)] == ["ok"]
    assert [file.name for file in (tmp_path / "runs").iterdir()] == ["a-1.json"]


def test_as_json_it_prints_what_the_table_shows_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("RLFT_HOME", str(tmp_path / ".rlft"))
    for name in ("ZENML_LOGGING_VERBOSITY", "TRANSFORMERS_VERBOSITY", "MLFLOW_LOGGING_LEVEL"):
        monkeypatch.setenv(name, "ERROR")
    done = CliRunner().invoke(app, ["doctor", "--verify", "--json"])
    said = json.loads(done.stdout)
    assert {"state": "ok", "what": f"Python {platform.python_version()}", "fix": ""} in said["findings"]
    assert done.exit_code == int(any(each["state"] == "broken" for each in said["findings"]))
    assert said["verified"] == {"artifacts": 0, "without_seal": 0, "damages": [], "others": []}
