"""All that a config's section `tasks.use` asks of MLflow."""

from __future__ import annotations

import pytest
from mlflow import MlflowClient

from mlops.runs import use as fetch
from mlops.runs.use import fetch_use
from rlft.config import UseConfig
from rlft.errors import TrackerError
from rlft.tasks.contamination import text_of_demonstration
from tests.e2e.conftest import free_port
from tests.mlflow_stores import new_store

SETTINGS = UseConfig(experiment="small-served")
SHOWN = text_of_demonstration("demonstration 1", [{"role": "user", "content": "Why?"}], [])


@pytest.fixture
def address(tmp_path, monkeypatch):
    address = new_store(tmp_path)
    MlflowClient(address).create_experiment("small-served")
    monkeypatch.setattr(fetch, "tracking_address", lambda uri: uri)  # which asks ZenML for the active stack
    return address


def test_nothing_is_asked_without_settings_or_an_address():
    assert fetch_use(None, "http://127.0.0.1:9", []) is None
    assert fetch_use(SETTINGS, "", []) is None


def test_an_experiment_without_traces_gives_none(address):
    use = fetch_use(SETTINGS, address, [SHOWN])
    assert use is not None
    assert (use.where, use.records, use.demonstrations) == ("the traces of small-served", (), (SHOWN,))


def test_a_server_that_does_not_answer_is_told(address):
    with pytest.raises(TrackerError):
        fetch_use(SETTINGS, f"http://127.0.0.1:{free_port()}", [])
