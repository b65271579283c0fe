"""How a stack's tracker is used, and what is said of one that ZenML does not take."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from mlops.stacks.stack import _tracking_uri, describe_refusal
from mlops.tracking.address import CREDENTIALS, NO_AUTHENTICATION, tracking_address
from rlft.errors import StackError


def tracker(uri: str = "http://127.0.0.1:9", **config: str) -> SimpleNamespace:
    settings = dict.fromkeys(CREDENTIALS) | config
    return SimpleNamespace(get_tracking_uri=lambda: uri, config=SimpleNamespace(**settings))


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch):
    for name in CREDENTIALS.values():
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_credentials_of_the_tracker_go_where_mlflow_reads_them():
    assert _tracking_uri(tracker(tracking_username="u", tracking_password="p")) == "http://127.0.0.1:9"
    assert (os.environ["MLFLOW_TRACKING_USERNAME"], os.environ["MLFLOW_TRACKING_PASSWORD"]) == ("u", "p")
    assert "MLFLOW_TRACKING_TOKEN" not in os.environ


def test_a_pod_takes_the_credentials_of_the_stack_that_it_runs_on(monkeypatch):
    active = SimpleNamespace(flavor="mlflow", config=tracker(tracking_token="t").config)
    monkeypatch.setattr(
        "zenml.client.Client", lambda: SimpleNamespace(active_stack=SimpleNamespace(experiment_tracker=active))
    )
    assert tracking_address("http://127.0.0.1:9") == "http://127.0.0.1:9"
    assert os.environ["MLFLOW_TRACKING_TOKEN"] == "t"


def test_the_word_for_no_authentication_is_not_sent(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "mine")
    _tracking_uri(tracker(tracking_token=NO_AUTHENTICATION))
    assert "MLFLOW_TRACKING_TOKEN" not in os.environ
    assert os.environ["MLFLOW_TRACKING_USERNAME"] == "mine"


def test_an_address_with_a_password_is_refused():
    with pytest.raises(StackError) as caught:
        _tracking_uri(tracker("http://u:Wq6-Wq6-Wq6@127.0.0.1:9"))
    assert caught.value.where == "--stack"
    assert "Wq6" not in str(caught.value)


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    count: int = 0
    flag: bool = False


def test_what_pydantic_refuses_is_a_line_for_each_setting_without_its_value():
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"count": "Wq6", "flag": "Wq6", "other": "Wq6"})
    assert describe_refusal(caught.value, "orchestrator.config").splitlines() == [
        "  orchestrator.config.count: Input should be a valid integer, unable to parse string as an integer",
        "  orchestrator.config.flag: Input should be a valid boolean, unable to interpret input",
        "  orchestrator.config.other: Extra inputs are not permitted",
    ]


def test_what_zenml_says_of_a_secret_comes_without_the_component_s_settings():
    said = "Failed to resolve secret reference for attribute a of stack component `b='Wq6' c='x`y'`: The secret s"
    assert describe_refusal(KeyError(said), "tracker.config") == (
        "  tracker.config: Failed to resolve secret reference for attribute a: The secret s"
    )
