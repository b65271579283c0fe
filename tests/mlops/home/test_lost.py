"""Folders of artifacts and of registered models that are gone as a whole."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import pytest

from cli.start import check_start
from mlops.doctor.killed import _lost
from mlops.home.databases import MLFLOW, ZENML
from mlops.home.faults import Fault
from mlops.home.folder import Home
from mlops.home.lost import check_artifacts, forget_artifacts, lost_versions
from rlft.config.file import load_config
from rlft.errors import NotReadyError, StorageError
from tests.e2e.conftest import TINY

SCHEMA = """
CREATE TABLE step_run (id TEXT, cache_expires_at TEXT);
CREATE TABLE step_run_output_artifact (step_id TEXT, artifact_id TEXT);
CREATE TABLE artifact_version (id TEXT, uri TEXT);
"""


@pytest.fixture
def home(tmp_path):
    """A home with two results of runs, and two versions in the registry, one of which lies elsewhere."""
    home = Home(tmp_path / ".rlft")
    for database in (ZENML, MLFLOW):
        database.file(home).parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(ZENML.file(home))) as database:
        database.executescript(SCHEMA)
        for name in ("tasks", "policy"):
            place = home.root / "zenml" / "local_stores" / "0a-1b-2c-3d-4e" / name
            place.mkdir(parents=True)
            database.execute("INSERT INTO step_run VALUES (?, NULL)", [name])
            database.execute("INSERT INTO step_run_output_artifact VALUES (?, ?)", [name, name])
            database.execute("INSERT INTO artifact_version VALUES (?, ?)", [name, str(place)])
        database.commit()
    with closing(sqlite3.connect(MLFLOW.file(home))) as database:
        database.execute("CREATE TABLE model_versions (name TEXT, version INT, storage_location TEXT)")
        (model := home.mlflow_artifacts / "models" / "m-1").mkdir(parents=True)
        rows = [("tiny", 1, f"file://{model}"), ("tiny", 2, str(model)), ("other", 1, "s3://bucket/model")]
        database.executemany("INSERT INTO model_versions VALUES (?, ?, ?)", rows)
        database.commit()
    return home


def test_a_home_that_has_its_files(home, tmp_path):
    check_artifacts(home)
    check_artifacts(Home(tmp_path / "none"))
    shutil.rmtree(home.root / "zenml" / "local_stores" / "0a-1b-2c-3d-4e" / "tasks")
    check_artifacts(home)  # single ones are told by their seals, with the command that makes them again
    assert not forget_artifacts(home)
    assert lost_versions(home) == []
    assert list(_lost(home)) == []


@pytest.mark.parametrize("is_replaced", [False, True])
def test_the_artifacts_of_all_runs_are_gone(home, monkeypatch, is_replaced):
    shutil.rmtree(store := home.root / "zenml" / "local_stores" / "0a-1b-2c-3d-4e")
    if is_replaced:
        store.mkdir()
    with pytest.raises(StorageError, match="the artifacts of all runs are gone") as caught:
        check_artifacts(home)
    assert "Not lost are their curves and conversations in MLflow" in caught.value.what
    assert "`rlft doctor --restore`" in caught.value.fix
    monkeypatch.setattr("cli.start.find_problems", lambda config, folder: [])
    with pytest.raises(NotReadyError, match="the artifacts of all runs are gone"):
        check_start(load_config(TINY), home, stack=None)  # before anything is loaded
    assert [found.state for found in _lost(home)] == ["broken"]
    assert forget_artifacts(home)  # as `rlft doctor --restore` does
    check_artifacts(home)
    assert not forget_artifacts(home)


def test_the_files_of_registered_versions_are_gone(home):
    shutil.rmtree(home.mlflow_artifacts)
    assert lost_versions(home) == ["tiny 1", "tiny 2"]
    [found] = _lost(home)
    assert (found.state, found.what) == ("broken", "the files of registered versions are gone: tiny 1, tiny 2")
    assert "rlft doctor --verify" in found.fix


def test_a_lost_database_does_not_promise_what_is_gone_with_it(home):
    fault = Fault(ZENML, "this database is gone")
    assert "Nothing else is lost: policies, rollouts and rewards lie beside it" in fault.error(home).what
    shutil.rmtree(home.root / "zenml")
    said = fault.error(home).what
    assert "Nothing else is lost" not in said
    assert f"What lay beside it in {home.root / 'zenml' / 'local_stores'} is gone, too. Summaries are in runs/" in said
