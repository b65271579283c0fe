"""What a person names as a model is looked up before an evaluation begins, and errors name it as it was typed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from mlflow import MlflowClient

from mlops.home.folder import Home
from mlops.runs.listing import unknown_run
from pipelines import models as named_models
from pipelines.models import check_models, naming_model
from rlft.errors import DamagedError, PolicyError, RlftError
from rlft.evaluation.model_names import parse_model
from tests.mlflow_stores import new_store


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    """A registry in which `mirror` has a version 1, the champion, and `plain` has none."""
    uri = new_store(tmp_path_factory.mktemp("registry"))
    client = MlflowClient(uri, uri)
    for name in ("mirror", "plain"):
        client.create_registered_model(name)
    client.create_model_version("mirror", "somewhere")
    client.set_registered_model_alias("mirror", "champion", "1")
    return uri


@pytest.fixture(autouse=True)
def runs(monkeypatch):
    """A home with the run `first-of-all`, an evaluation `quick`, and a hub whose every model is there."""
    known = {"first-of-all": "train", "quick": "evaluate"}

    def find_run(name):
        full = next((each for each in known if each.startswith(name)), None)  # as ZenML takes the beginning of a name
        if full is None:
            raise unknown_run(name, list(known), [])
        return SimpleNamespace(name=full, pipeline=SimpleNamespace(name=known[full]))

    monkeypatch.setattr(named_models, "check_origin", lambda settings: None)
    monkeypatch.setattr(named_models, "stored_policy", lambda home, run, policy, round: find_run(run))


def check(tmp_path, uri, text):
    check_models(Home(tmp_path), [parse_model(text)], uri)


@pytest.mark.parametrize("text", ["gpt2", "first", "mirror@main", "mirror/large"])
def test_other_names_are_those_of_the_hub(tmp_path, uri, text, monkeypatch):
    asked = []
    monkeypatch.setattr(named_models, "check_origin", asked.append)
    check(tmp_path, uri, text)
    name, _, revision = text.partition("@")
    assert [(settings.model, settings.revision) for settings in asked] == [(name, revision or None)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("absent:best", "no run is called 'absent'"),
        ("models:/mirror@best", "no version has this alias"),
        ("models:/mirror/7", "there is no such version"),
        ("./absent", "there is no such folder"),
    ],
)
def test_what_is_not_there_is_told_with_what_was_typed(tmp_path, uri, text, says):
    with pytest.raises(RlftError, match=says) as told:
        check(tmp_path, uri, text)
    assert told.value.where == f"MODEL {text!r}"


def test_a_name_that_the_hub_does_not_have_is_told_with_how_runs_and_versions_are_written(tmp_path, uri, monkeypatch):
    def refuse(settings):
        raise PolicyError("it is not to be had", where="policy.model", fix="name a folder")

    monkeypatch.setattr(named_models, "check_origin", refuse)
    with pytest.raises(PolicyError) as told:
        check(tmp_path, uri, "mirror")
    assert told.value.where == "MODEL 'mirror'"
    assert told.value.fix == "name a folder; a run's model is RUN:best, and a registered one models:/NAME@ALIAS"


def test_errors_of_a_model_name_no_setting_that_nobody_typed():
    model = parse_model("owner/name")
    with pytest.raises(PolicyError) as told, naming_model(model):
        raise PolicyError("the model 'owner/name' does not load", where="policy.model", fix="name another")
    assert str(told.value).startswith("MODEL 'owner/name': the model 'owner/name' does not load")
    with pytest.raises(DamagedError) as damaged, naming_model(model):
        raise DamagedError("it was changed", where="/a/file")
    assert damaged.value.where == "/a/file"
