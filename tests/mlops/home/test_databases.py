"""What is asked of the databases without ZenML and MLflow agrees with what these say."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
import typer
from zenml.enums import ExecutionStatus
from zenml.zen_stores.schemas import PipelineRunSchema

from cli import guard
from mlops.doctor.killed import check_runs
from mlops.home.databases import _ENDED, DATABASES, ZENML, all_runs_ended, complaint, opened
from mlops.home.folder import Home
from tests.mlops.home.making import make_databases


def test_the_words_for_a_run_that_has_ended_are_zenml_s():
    assert {status for status in ExecutionStatus if status.is_finished} >= _ENDED
    assert PipelineRunSchema.__tablename__ == "pipeline_run"
    assert "status" in PipelineRunSchema.model_fields


def test_a_damaged_database_is_named_and_a_locked_one_is_not(tmp_path, monkeypatch, capsys):
    home = Home(tmp_path)
    make_databases(home, DATABASES)
    (tmp_path / "zenml" / "local_stores" / "1-2-3-4-5").mkdir()
    file = ZENML.file(home)
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        assert complaint(file) is None
    file.write_bytes(bytes(6) + file.read_bytes()[6:])
    assert complaint(file) == "file is not a database"
    assert [(found.state, str(file) in found.what) for found in check_runs(home)] == [("broken", True)]
    monkeypatch.setenv("RLFT_HOME", str(tmp_path))
    monkeypatch.setattr(guard.errors, "_width", 2000)
    with pytest.raises(typer.Exit), guard.guarded(False, None):
        raise sqlite3.DatabaseError("file is not a database")
    said = capsys.readouterr().err
    assert f"{file}: this database is damaged: file is not a database" in said
    assert "unexpected" not in said


@pytest.mark.parametrize("name", ["of #1", "%41", "a b&mode=rwc"])
def test_the_database_of_a_home_is_opened_whatever_its_path_holds(tmp_path, name):
    for folder, status in ((name, "completed"), ("of ", "running"), ("A", "running")):  # `%41` is `A` in an address
        make_databases(Home(tmp_path / folder), [ZENML])
        with opened(ZENML.file(Home(tmp_path / folder)), "rw") as database:
            database.execute("INSERT INTO pipeline_run VALUES ('1', 'first', ?)", (status,))
    assert all_runs_ended(Home(tmp_path / name))
    assert not all_runs_ended(Home(tmp_path / "A"))
    assert not all_runs_ended(Home(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()
