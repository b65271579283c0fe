"""What a removal takes of MLflow, and what stays there. With real runs: tests/e2e/test_removal.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from mlops.home.folder import Home
from mlops.runs.removing import Plan, _note_mlflow, _remove_from_mlflow
from tests.mlops.runs.test_removal_plan import run


@pytest.fixture
def home(tmp_path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def client(home) -> MlflowClient:
    home.root.mkdir()
    return MlflowClient(home.tracking_uri)


def remove(home: Home, ids: list[str]) -> None:
    plan = Plan([replace(run("first"), mlflow_runs=tuple(ids))])
    _note_mlflow(home, plan)
    _remove_from_mlflow(home, plan)


@pytest.mark.slow
def test_the_files_of_a_version_stay_and_those_of_another_run_go(home, client):
    """A version that a person has made of a file in a run's artifacts."""
    experiment = client.create_experiment("e", artifact_location=(home.root / "mlflow-artifacts").as_uri())
    ids = [client.create_run(experiment).info.run_id for _ in range(2)]
    folders = [Path(client.get_run(one).info.artifact_uri.removeprefix("file://")) for one in ids]
    for folder in folders:
        (folder / "model").mkdir(parents=True)
        (folder / "model" / "weights").write_text("w")
    client.create_registered_model("tiny")
    client.create_model_version("tiny", source=(folders[0] / "model").as_uri())
    remove(home, [*ids, "0" * 32])  # the last is one that somebody has removed in MLflow
    assert [(folder / "model" / "weights").is_file() for folder in folders] == [True, False]
    assert [found.info.run_id for found in client.search_runs([experiment])] == [ids[0]]


def test_logged_models_go_but_for_that_of_a_version(home, client):
    experiment = client.create_experiment("e", artifact_location=(home.root / "mlflow-artifacts").as_uri())
    own = client.create_run(experiment).info.run_id
    models = [client.create_logged_model(experiment, name=name, source_run_id=own) for name in "ab"]
    places = [Path(model.artifact_location.removeprefix("file://")) for model in models]
    for place in places:
        place.mkdir(parents=True)
    client.create_registered_model("tiny")
    client.create_model_version("tiny", source=models[1].artifact_location)
    remove(home, [own])
    assert [place.is_dir() for place in places] == [False, True]
    left = client.search_logged_models([experiment])
    assert [model.model_id for model in left] == [models[1].model_id]
