"""Before anything is trained a run knows whether its model can be registered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED

from mlops.summary.file import read_summary
from mlops.summary.summary import Summary
from pipelines import opening
from pipelines.observer import Attempt, Observer
from pipelines.opening import _note_failure, _open_registry
from pipelines.rounds import Rounds
from rlft.errors import ConfigError, FixedSettingError, StorageError
from tests.e2e.conftest import free_port
from tests.mlflow_stores import new_store

OPEN: Any = SimpleNamespace(run_id="a run of MLflow's", experiment="sums")
CONFIG: Any = None


def observer_of(name: str, summary: Summary | None = None, tracker: Any = OPEN, **known: Any) -> Observer:
    return Observer(CONFIG, tracker, summary or Summary(status="failed"), Attempt(name, **known))


def test_the_model_is_there_before_there_is_a_version_and_is_opened_once_more(tmp_path):
    uri = new_store(tmp_path)
    for _ in range(2):
        _open_registry(uri, "sums", OPEN, own_store=True)
    assert [model.name for model in MlflowClient(uri).search_registered_models()] == ["sums"]


def test_what_has_ended_a_run_is_noted_with_the_whole_command_that_goes_on_with_it():
    kept = observer_of("mine", resume="rlft resume mine --stack team")
    _note_failure(kept, StorageError("weights could not be written", fix="make room, then `rlft resume` goes on"))
    assert kept.summary.error.endswith("make room, then `rlft resume mine --stack team` goes on")


def test_what_a_run_has_come_to_so_far_is_kept_as_that_of_one_that_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(Observer, "keep", lambda self: kept.append(self.summary.rounds))
    kept: list[int] = []
    open_one = observer_of("mine", Summary(status="failed", pipeline_run_id="1", rounds=2), folder=tmp_path)
    open_one.rounds_so_far(Rounds(None))
    left = read_summary(tmp_path)
    assert left is not None
    assert (left.status, left.rounds, open_one.summary.status) == ("running", 2, "failed")
    (tmp_path / "summary.json").unlink()
    (tmp_path / "summary.json").mkdir()  # nothing can be written there
    open_one.rounds_so_far(Rounds(None))
    assert kept == [2, 2]


@pytest.mark.slow
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

    monkeypatch.setattr(opening, "check_reachable", lambda uri: None)
    monkeypatch.setattr(opening, "active_experiment", lambda client, name: None)
    monkeypatch.setattr(opening, "open_name", refuses)
    with pytest.raises(StorageError, match=r"the model 'sums' cannot be registered there.*not yours") as error:
        _open_registry("http://user:secret-word@127.0.0.1:9", "sums", OPEN, own_store=False)
    assert "secret-word" not in str(error.value)
    assert "promotion.name" in error.value.fix


@pytest.mark.parametrize("own_store", [True, False])
def test_an_experiment_that_was_deleted_ends_the_run_with_the_command_that_restores_it(tmp_path, own_store):
    client = MlflowClient(uri := new_store(tmp_path))
    client.delete_experiment(found := client.create_experiment("sums"))
    not_opened: Any = SimpleNamespace(run_id=None, experiment="sums")
    with pytest.raises(StorageError, match="the experiment 'sums' is deleted, so nothing is trained") as error:
        _open_registry(uri, "sums", not_opened, own_store=own_store)
    assert f"mlflow experiments restore --experiment-id {found}" in error.value.fix


def test_a_failure_says_whether_a_resume_could_mend_it():
    for cause, expected in ((FixedSettingError("no column"), True), (ConfigError("no file"), False)):
        kept = observer_of("first")
        _note_failure(kept, cause)
        assert (kept.summary.error, kept.summary.needs_new_settings) == (str(cause), expected)
