"""`rlft delete` and `rlft prune` leave a damaged home as it is, and `rlft prune` alone ends what was cut short."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from cli import app as cli
from cli.removing import remove
from mlops.display import terminal
from mlops.doctor.home import _removal
from mlops.home.databases import DATABASES, MLFLOW, ZENML
from mlops.home.folder import Home
from mlops.home.locks import removal_lock
from mlops.removal import removing as removal
from mlops.removal.note import Note, unfinished_removal
from mlops.removal.plan import Plan
from mlops.runs.listed import Attempt, ListedRun
from rlft.errors import StorageError
from tests.mlops.home.making import make_databases


@pytest.fixture
def rlft(tmp_path, monkeypatch):
    """Run a command in this process, on a home in an empty folder."""
    monkeypatch.setenv("RLFT_HOME", str(tmp_path / ".rlft"))
    for name in ("ZENML_LOGGING_VERBOSITY", "TRANSFORMERS_VERBOSITY", "MLFLOW_LOGGING_LEVEL"):
        monkeypatch.setenv(name, "ERROR")
    monkeypatch.setattr(terminal.errors, "_width", 2000)
    return lambda *arguments: CliRunner().invoke(cli.app, list(arguments))


@pytest.mark.parametrize("database", DATABASES, ids=lambda database: database.name)
@pytest.mark.parametrize("command", [("delete", "first", "--yes"), ("prune", "--keep-last", "0", "--yes")])
def test_a_home_with_a_damaged_database_is_left_as_it_is(rlft, tmp_path, database, command):
    home = Home(tmp_path / ".rlft")
    make_databases(home, DATABASES)
    file = database.file(home)
    file.write_bytes(bytes(6) + file.read_bytes()[6:])
    before = {one.file(home): one.file(home).read_bytes() for one in (ZENML, MLFLOW)}
    done = rlft(*command)
    assert done.exit_code == 1
    assert f"error {file}: this database is damaged: file is not a database" in done.output
    assert {file: file.read_bytes() for file in before} == before


def test_prune_without_a_rule_ends_a_removal_that_was_cut_short_and_is_refused_else(rlft, tmp_path, monkeypatch):
    home = Home(tmp_path / ".rlft")
    make_databases(home, [MLFLOW])
    refused = rlft("prune")
    assert (refused.exit_code, "it is not said what is old" in refused.output) == (2, True)
    plans = []

    def ended(home, plan):
        plans.append(plan)
        return Plan([])

    monkeypatch.setattr("cli.removing.note_versions", lambda home: None)
    monkeypatch.setattr(removal, "remove_runs", ended)
    Note(["1" * 32], "first", []).write(home)
    looked = rlft("prune", "--dry-run")
    assert (looked.exit_code, "the removal of first was cut short" in looked.output, plans) == (0, True, [])
    nothing = {"removed": False, "runs": [], "kept": {}, "outside": [], "bytes": 0}
    assert (json.loads(rlft("prune", "--dry-run", "--json").stdout), plans) == (nothing, [])
    done = rlft("prune")
    assert done.exit_code == 0, done.output
    assert "the removal of first has ended" in done.output
    assert [plan.runs for plan in plans] == [[]]
    assert json.loads(rlft("prune", "--json").stdout) == nothing | {"removed": True}
    assert unfinished_removal(home) is not None  # this test's stand-in has removed nothing


def test_a_removal_names_the_process_that_removes_already(tmp_path):
    home = Home(tmp_path)
    with removal_lock(home), pytest.raises(StorageError) as error:
        removal.remove_runs(home, Plan([]))
    assert error.value.where == str(tmp_path)
    assert error.value.what.startswith("process ")
    assert error.value.what.endswith(" removes runs of this home")


UNREADABLE = {
    "empty": "",
    "cut": '{"keys": ["1',
    "null": "null",
    "a list": "[]",
    "of another version": '{"version": 9, "keys": [], "name": "", "mlflow_runs": []}',
    "of other types": '{"keys": 3, "name": [], "mlflow_runs": null}',
    "with a number for a time": '{"keys": [], "name": "", "mlflow_runs": [], "hidden": {"a": 3}}',
    "no UTF-8": "\udcff",
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_a_note_that_cannot_be_read_is_told_with_what_is_lost_and_stays(rlft, tmp_path, text):
    home = Home(tmp_path / ".rlft")
    make_databases(home, DATABASES)
    (note := home.root / "removing.json").write_bytes(content := text.encode(errors="surrogateescape"))
    done = rlft("prune")
    assert done.exit_code == 1
    assert f"error {note}: this note of a removal that was cut short cannot be read" in done.output
    assert "What it named may lie in MLflow and on the disk still" in done.output
    assert "what to do: remove this file; `rlft runs` lists what is there" in done.output
    assert rlft("runs").exit_code == 0
    [found] = _removal(home)
    assert (found.state, "cannot be read" in found.what) == ("broken", True)
    assert note.read_bytes() == content


def test_a_person_who_asks_for_json_sees_what_would_go_before_the_question(tmp_path, capsys, monkeypatch):
    began = datetime(2026, 3, 1, 12, tzinfo=UTC)
    run = ListedRun("first", (Attempt("1" * 32, "first", "completed", began, 61.0, None),), "completed")
    monkeypatch.setattr("mlops.removal.plan.make_plan", lambda *_, **__: Plan([run], bytes=2_000_000))
    monkeypatch.setattr(removal, "remove_runs", lambda home, plan: plan)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    options = {"resumable_too": False, "dry_run": False, "yes": False, "as_json": True}
    remove(Home(tmp_path), [run], terminal.console, **options)
    said = capsys.readouterr()
    assert json.loads(said.out)["removed"] is True
    listed, question = said.err.splitlines()
    assert listed.startswith("first, 2026-03-01")
    assert question == "1 run will be removed for good, which frees 2.0 MB."
