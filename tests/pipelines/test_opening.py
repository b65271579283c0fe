"""Before anything is trained a run knows whether its model can be registered."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED

from mlops.home.folder import Home
from mlops.home.processes import note_process, read_note
from mlops.runs import finding
from mlops.summary.file import read_summary
from mlops.summary.summary import Summary
from pipelines import observer, opening
from pipelines.observer import Attempt, Observer
from pipelines.opening import Ended, _close, _leave_to_others, _note_failure, _open_registry
from rlft.errors import ConfigError, FixedSettingError, ResumedElsewhereError, StorageError
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
    monkeypatch.setattr(observer, "find_home", lambda: Home(tmp_path))
    monkeypatch.setattr(Observer, "keep", lambda self: kept.append(self.summary.rounds))
    kept: list[int] = []
    open_one = observer_of("mine", Summary(status="failed", pipeline_run_id="1", rounds=2))
    open_one.keep_so_far()
    left = read_summary(Home(tmp_path), "1")
    assert left is not None
    assert (left.status, left.rounds, open_one.summary.status) == ("running", 2, "failed")
    Home(tmp_path).summary_file("1").unlink()
    Home(tmp_path).summary_file("1").mkdir()  # nothing can be written there
    open_one.keep_so_far()
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


def test_a_champion_that_does_not_exist_any_more_ends_the_run(tmp_path):
    uri = new_store(tmp_path)
    _open_registry(uri, "sums", OPEN, own_store=True)
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database, database:
        database.execute("INSERT INTO registered_model_aliases (alias, version, name) VALUES ('champion', 7, 'sums')")
    for own_store in (True, False):
        with pytest.raises(StorageError, match=r"'champion' names version 7, which.*nothing is") as error:
            _open_registry(uri, "sums", OPEN, own_store=own_store)
        assert "remove the alias" in error.value.fix


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
        assert _note_failure(kept, cause).zenml_answers
        assert (kept.summary.error, kept.summary.needs_new_settings) == (str(cause), expected)


def attempt(number: int) -> Any:
    when = datetime(2026, 11, 27, 12, number)
    return SimpleNamespace(id=number, name=f"first-{number}", created=when, user=SimpleNamespace(name="ben"))


@pytest.fixture
def woken(tmp_path, monkeypatch):
    """A run's attempt 1 that ends, to which there are these attempts, newest first."""
    note_process(Home(tmp_path), "1")

    def leave(attempts: list[Any], *, is_shared: bool = True, **ended: bool) -> None:
        kept = observer_of("first", Summary(status="improved", pipeline_run_id="1"), is_shared=is_shared)
        monkeypatch.setattr(finding, "attempts_of", lambda run: attempts)
        _leave_to_others(kept, Home(tmp_path), attempt(1), Ended(**ended))

    return leave


def test_a_run_that_wakes_up_leaves_to_another_what_that_has_resumed(woken, tmp_path):
    with pytest.raises(ResumedElsewhereError, match=r"somebody else \(ben\) has resumed first as first-2") as error:
        woken([attempt(2), attempt(1)], is_shared=True)
    assert error.value.exit_code == 1
    left = read_summary(Home(tmp_path), "1")
    assert left is not None
    assert (left.status, "somebody else (ben) has resumed" in str(left.error)) == ("failed", True)
    assert read_note(Home(tmp_path), "1") is None


@pytest.mark.parametrize(
    ("attempts", "fields"),
    [
        ([attempt(1), attempt(0)], {"is_shared": True}),
        ([attempt(2), attempt(1)], {"is_shared": False}),  # in a home its process would have been seen
        ([attempt(2), attempt(1)], {"is_shared": True, "zenml_answers": False}),
        ([], {"is_shared": True}),  # ZenML fails
    ],
)
def test_any_other_run_is_closed_as_its_own(woken, tmp_path, attempts, fields):
    woken(attempts, **fields)
    assert read_note(Home(tmp_path), "1") is not None


def test_one_that_another_has_ended_to_resume_it_leaves_it_too(woken):
    with pytest.raises(ResumedElsewhereError, match="somebody else has taken first for dead"):
        woken([attempt(1)], is_shared=True, taken_for_dead=True)


def test_what_all_attempts_share_is_left_alone_once_there_is_a_later_one(tmp_path, monkeypatch):
    monkeypatch.setattr(finding, "attempts_of", lambda run: [attempt(2), attempt(1)])
    tracker: Any = SimpleNamespace()  # it can do nothing
    kept = observer_of("first", Summary(status="improved", pipeline_run_id="1"), tracker, is_shared=True)
    with pytest.raises(ResumedElsewhereError):
        _close(kept, Home(tmp_path), attempt(1), "FAILED", "", Ended())
