"""A home whose databases were being made when the process was killed is as good as a new one."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
import sqlalchemy
import typer
from zenml.enums import ExecutionStatus
from zenml.zen_stores.schemas import PipelineRunSchema

from cli import doctor, guard
from mlops.home import stores
from mlops.home.folder import _CONTENTS, Home
from mlops.home.stores import _ENDED, _FILES, _remove, all_runs_ended, make_stores
from rlft.errors import StorageError
from tests.e2e import conftest

KILLED = """
import os, signal
from sqlalchemy import event
from sqlalchemy.engine import Engine
from mlops.home.folder import find_home, quieten
from mlops.stacks.stack import connect
def die(connection, cursor, statement, *_):
    if statement.strip().upper().startswith({statement!r}):
        os.kill(os.getpid(), signal.SIGKILL)
event.listen(Engine, "after_cursor_execute", die)
quieten(False); connect(find_home(), None)
"""


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["INSERT INTO FLAVOR", "CREATE TABLE _ALEMBIC_TMP_ENDPOINTS"])
def test_killed_while_they_are_made_they_are_made_anew(tmp_path, statement):
    home = conftest.Home(tmp_path)
    killed = home.python("-c", KILLED.format(statement=statement))
    assert killed.returncode == -9, killed.stderr
    begun = json.loads((tmp_path / ".rlft" / "unfinished.json").read_text())
    assert "mlflow.db" in begun
    assert {entry.name for entry in (tmp_path / ".rlft").iterdir()} <= _CONTENTS
    found = home.query("print(json.dumps([client.active_stack_model.name, len(mlflow_client.search_experiments())]))")
    assert found == ["default", 1]
    assert not (tmp_path / ".rlft" / "unfinished.json").exists()
    assert all_runs_ended(Home(tmp_path / ".rlft"))  # it finds ZenML's database, and there are none


def test_what_was_there_before_stays(tmp_path, monkeypatch):
    home = Home(tmp_path)
    (tmp_path / "mlflow.db").write_text("of an earlier year")
    made = []

    def dies(home):
        made.append(home)
        (tmp_path / "zenml" / "local_stores" / "default_zen_store").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr("mlops.home.stores._open", dies)
    for _ in range(2):  # the second time what the first began is made again
        with pytest.raises(KeyboardInterrupt):
            make_stores(home)
    assert len(made) == 2
    assert (tmp_path / "mlflow.db").read_text() == "of an earlier year"


def test_a_database_goes_with_its_journals_and_nothing_else(tmp_path):
    mine = {"mlflow.db.backup-2025", "mlflow.db-old.tar", "other.db"}
    for name in ("mlflow.db", "mlflow.db-journal", "mlflow.db-wal", "mlflow.db-shm", *mine):
        (tmp_path / name).touch()
    (tmp_path / "mlflow.db.d").mkdir()
    _remove(tmp_path / "mlflow.db")
    assert {file.name for file in tmp_path.iterdir()} == mine | {"mlflow.db.d"}


def finished(home):
    """Something by every name that is made."""
    for name in _FILES:
        (home.root / name).parent.mkdir(parents=True, exist_ok=True)
        (home.root / name).write_text("of a run")


def test_a_finished_home_is_not_written_to(tmp_path):
    finished(Home(tmp_path))
    make_stores(Home(tmp_path))
    assert {entry.name for entry in tmp_path.iterdir()} == {"zenml", "mlflow.db"}


@pytest.mark.parametrize("lacking", ["zenml/config.yaml", None])
def test_an_unfinished_home_that_cannot_be_written_to_says_so(tmp_path, lacking):
    finished(Home(tmp_path))
    if lacking:
        (tmp_path / lacking).unlink()
    else:
        (tmp_path / "unfinished.json").write_text("[]")
    (tmp_path / "stores.lock").mkdir()  # which cannot be opened either, and root may open any file
    with pytest.raises(StorageError, match="RLFT_HOME to a folder that you can write to"):
        make_stores(Home(tmp_path))


def test_a_full_disk_is_said_and_with_room_they_are_made(tmp_path, monkeypatch):
    home, pages = Home(tmp_path), 3  # one is sqlite's own, so the third table finds none

    def makes_tables(home):
        with sqlalchemy.create_engine(home.tracking_uri).connect() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
            for name in "abc":
                connection.exec_driver_sql(f"CREATE TABLE {name} (x)")

    monkeypatch.setattr("mlops.home.stores._open", makes_tables)
    with pytest.raises(StorageError) as error:
        make_stores(home)
    assert error.value.what == "the databases of the runs cannot be made: database or disk is full"
    assert "make room on the disk" in error.value.fix
    assert (tmp_path / "unfinished.json").exists()
    pages = 4
    make_stores(home)
    assert not (tmp_path / "unfinished.json").exists()


@pytest.mark.parametrize("note", ["", "\0\0\0", "null", '"mlflow.db"', "[[]]", '["runs"]', '[".."]'])
def test_a_note_that_says_nothing_removes_nothing(tmp_path, note):
    home = Home(tmp_path)
    finished(home)
    (tmp_path / "runs").mkdir()
    (tmp_path / "unfinished.json").write_text(note)
    with pytest.raises(StorageError, match="remove this file") as error:
        make_stores(home)
    assert error.value.where == str(tmp_path / "unfinished.json")
    assert all((tmp_path / name).read_text() == "of a run" for name in _FILES)
    assert (tmp_path / "runs").is_dir()
    (tmp_path / "unfinished.json").unlink()  # the way out
    make_stores(home)


def test_the_words_for_a_run_that_has_ended_are_zenml_s():
    assert {status for status in ExecutionStatus if status.is_finished} >= _ENDED
    assert PipelineRunSchema.__tablename__ == "pipeline_run"
    assert "status" in PipelineRunSchema.model_fields


def test_a_damaged_database_is_named_and_a_locked_one_is_not(tmp_path, monkeypatch, capsys):
    home = Home(tmp_path)
    file = tmp_path / stores.DATABASE
    file.parent.mkdir(parents=True)
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("CREATE TABLE pipeline_run (id TEXT, status TEXT)")
        database.execute("BEGIN EXCLUSIVE")
        assert stores.damaged_databases(home) == {}
    content = bytearray(file.read_bytes())
    content[:6] = b"\0" * 6
    file.write_bytes(content)
    assert stores.damaged_databases(home) == {file: "file is not a database"}
    assert [(found.state, str(file) in found.what) for found in doctor._runs(home)] == [("broken", True)]
    monkeypatch.setenv("RLFT_HOME", str(tmp_path))
    monkeypatch.setattr(guard.errors, "_width", 2000)
    with pytest.raises(typer.Exit), guard.guarded(False, None):
        raise sqlite3.DatabaseError("file is not a database")
    assert f"{file}: this database is damaged: file is not a database; put a copy" in capsys.readouterr().err
