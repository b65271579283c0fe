"""Who ran what, as MLflow shows it at the head of a run's page."""

from __future__ import annotations

import getpass
import sys

import pytest

from mlops.runs.identity import identity_facts, identity_tags
from mlops.runs.labels import Labels, default_name
from rlft.config.file import load_config
from rlft.environments.fingerprints import EnvironmentFingerprints
from tests.e2e.conftest import TINY

LABELS = Labels(name="first", tags={"team": "a"}, commits={"config": "beef"})


@pytest.fixture
def typed(monkeypatch):
    monkeypatch.setattr(
        sys, "argv", ["/usr/bin/rlft", "run", "configs/a.yaml", "--set", "environment.kwargs.api_key=hunter22"]
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--set", "environment={name: a.py:A, kwargs: {api_key: hunter22}}"],
        ["--set", "environment.kwargs={password: hunter22}"],
        ["--set=environment.kwargs.api_key=hunter22"],
        ["--set=environment.kwargs={headers: [{token: hunter22}]}"],
    ],
)
def test_a_secret_within_a_value_is_in_neither(monkeypatch, words):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/rlft", "run", "a.yaml", *words])
    tags, facts = identity_tags(load_config(TINY), LABELS), identity_facts(EnvironmentFingerprints("aa", "bb"), LABELS)
    assert tags["mlflow.source.name"].startswith("rlft run a.yaml --set")
    assert "hunter22" not in f"{tags} {facts}"
    assert default_name("a", [words[-1].removeprefix("--set=")]).count("hunter22") == 0


def test_the_tags_say_who_ran_which_command(typed):
    tags = identity_tags(load_config(TINY), LABELS)
    assert tags["mlflow.user"] == getpass.getuser()
    assert tags["mlflow.source.name"].startswith("rlft run a.yaml --set ")  # the page shows what is behind a slash
    assert tags["team"] == "a"


def test_a_run_that_a_program_began_has_no_command(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/venv/zenml/entrypoint.py", "--secret", "x"])
    assert identity_tags(load_config(TINY), LABELS)["mlflow.source.name"] == "rlft"


def test_a_user_without_a_name_is_unknown(monkeypatch):
    def nobody():
        raise KeyError("uid 12345")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert identity_tags(load_config(TINY), LABELS)["mlflow.user"] == "unknown"


def test_the_exact_code_is_there_and_no_secret(typed):
    facts = identity_facts(EnvironmentFingerprints("aa", "bb"), LABELS)
    assert facts["commits"]["config"] == "beef"
    assert facts["fingerprints"] == {"environment": "aa", "reward": "bb"}
    assert set(facts["packages"]) == {"zenml", "mlflow", "torch", "transformers", "peft"}
    assert facts["command"].startswith("rlft run configs/a.yaml")
    assert "hunter22" not in str(facts)
    assert "hunter22" not in str(identity_tags(load_config(TINY), LABELS))
