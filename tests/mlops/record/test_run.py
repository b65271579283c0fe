"""Before anything is trained a run knows whether its model can be registered."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED

from mlops.record import run as record
from mlops.record.run import _note_failure, _open_registry
from mlops.summary.summary import Summary
from rlft.errors import ConfigError, FixedSettingError, StorageError
from tests.e2e.conftest import free_port

OPEN: Any = SimpleNamespace(run_id="a run of MLflow's", experiment="sums")


def test_the_model_is_there_before_there_is_a_version_and_is_opened_once_more(tmp_path):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    for _ in range(2):
        _open_registry(uri, "sums", OPEN, own_store=True)
    assert [model.name for model in MlflowClient(uri).search_registered_models()] == ["sums"]


def test_a_store_of_the_home_that_does_not_work_ends_the_run(tmp_path):
    (tmp_path / "mlflow.db").mkdir()
    with pytest.raises(StorageError, match="cannot be registered there, so nothing is trained"):
        _open_registry(
            f"sqlite:///{tmp_path}/mlflow.db/x", "sums", SimpleNamespace(run_id=None, experiment="sums"), own_store=True
        )


def test_a_server_that_is_away_is_warned_of_and_one_that_refuses_ends_the_run(monkeypatch, caplog):
    _open_registry(f"http://127.0.0.1:{free_port()}", "sums", OPEN, own_store=False)
    assert "the registry does not answer: the model cannot be registered unless it does" in caplog.text

    def refuses(*_):
        raise MlflowException("not yours", error_code=PERMISSION_DENIED)

    monkeypatch.setattr(record, "check_reachable", lambda uri: None)
    monkeypatch.setattr(record, "active_experiment", lambda client, name: None)
    monkeypatch.setattr(record, "open_name", refuses)
    with pytest.raises(StorageError, match=r"the model 'sums' cannot be registered there.*not yours") as error:
        _open_registry("http://user:secret-word@127.0.0.1:9", "sums", OPEN, own_store=False)
    assert "secret-word" not in str(error.value)
    assert "promotion.name" in error.value.fix


def test_a_champion_that_does_not_exist_any_more_ends_the_run(tmp_path):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    _open_registry(uri, "sums", OPEN, own_store=True)
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database, database:
        database.execute("INSERT INTO registered_model_aliases (alias, version, name) VALUES ('champion', 7, 'sums')")
    for own_store in (True, False):
        with pytest.raises(StorageError, match=r"'champion' names version 7, which.*nothing is") as error:
            _open_registry(uri, "sums", OPEN, own_store=own_store)
        assert "remove the alias" in error.value.fix


@pytest.mark.parametrize("own_store", [True, False])
def test_an_experiment_that_was_deleted_ends_the_run_with_the_command_that_restores_it(tmp_path, own_store):
    client = MlflowClient(uri := f"sqlite:///{tmp_path}/mlflow.db")
    client.delete_experiment(found := client.create_experiment("sums"))
    not_opened: Any = SimpleNamespace(run_id=None, experiment="sums")
    with pytest.raises(StorageError, match="the experiment 'sums' is deleted, so nothing is trained") as error:
        _open_registry(uri, "sums", not_opened, own_store=own_store)
    assert f"mlflow experiments restore --experiment-id {found}" in error.value.fix


def test_a_failure_says_whether_a_resume_could_mend_it():
    for cause, expected in ((FixedSettingError("no column"), True), (ConfigError("no file"), False)):
        kept = record.Record(OPEN, Summary(status="failed"), "first")
        _note_failure(kept, cause)
        assert (kept.summary.error, kept.summary.needs_new_settings) == (str(cause), expected)
        assert kept.zenml_answers
