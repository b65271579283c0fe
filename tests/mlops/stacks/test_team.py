"""What is said of a team's stack that lacks something. With real servers: tests/team/test_shared.py."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest
from zenml.exceptions import AuthorizationException

from mlops.stacks import team
from rlft.errors import StackError


@contextmanager
def answering(status: int, text: str):
    """A server that gives one answer to all, and its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *arguments):
            del arguments

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def use(monkeypatch, address: str) -> None:
    """Let ZenML be one that uses this store."""
    from zenml.config import global_config

    monkeypatch.setattr(
        global_config, "GlobalConfiguration", lambda: SimpleNamespace(store_configuration=SimpleNamespace(url=address))
    )


def test_a_user_of_another_server_is_told_to_log_in(monkeypatch):
    use(monkeypatch, "sqlite:////home/u/zenml.db")
    with pytest.raises(StackError, match=r"your ZenML uses no server\n.*zenml login http://team:8080"):
        team.check_server("http://team:8080")
    use(monkeypatch, "http://other:8080")
    with pytest.raises(StackError, match="your ZenML uses http://other:8080"):
        team.check_server("http://team:8080")


def test_a_server_of_another_version_is_refused_with_both(monkeypatch):
    with answering(200, json.dumps({"version": "0.12.3"})) as address:
        use(monkeypatch, f"{address}/")  # a slash at the end is no other server
        with pytest.raises(StackError, match=r"ZenML's server is 0\.12\.3, and here is 0\.98\.0"):
            team.check_server(address)


@pytest.mark.parametrize(
    ("status", "text"), [(200, "<html>Sign in</html>"), (401, ""), (200, "{}"), (200, "[1]"), (200, "null")]
)
def test_what_answers_and_is_not_zenml_is_refused(monkeypatch, status, text):
    with answering(status, text) as address:
        use(monkeypatch, address)
        with pytest.raises(StackError, match=rf"{address}/api/v1/info is not ZenML's server, or is broken"):
            team.check_server(address)


@pytest.mark.parametrize("cause", [AuthorizationException("expired"), RuntimeError("expired"), None])
def test_a_login_that_has_expired_is_told_with_the_way_to_a_new_one(monkeypatch, cause):
    from zenml import client

    class Client:
        @property
        def active_user(self):
            if cause is not None:
                raise cause

    monkeypatch.setattr(client, "Client", Client)
    with answering(200, json.dumps({"version": "0.98.0"})) as address:
        use(monkeypatch, address)
        told = (
            nullcontext() if cause is None else pytest.raises(StackError, match=f"expired\n.*login {address} --refresh")
        )
        with told:
            team.check_server(address)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (200, "<html>Sign in</html>", r"what answers at .*/version is not MLflow's server, or is broken"),
        (200, "2.22.0", r"MLflow's server is 2\.22\.0, and here is 3\.17\.2"),
        (401, "You are not authenticated", "does not let you in as u with this password"),
        (404, "", "is not MLflow's server, or is broken \\(HTTP 404\\)"),
    ],
)
def test_an_mlflow_server_that_will_not_do_is_refused(status, text, said):
    with answering(status, text) as address:
        config = SimpleNamespace(tracking_uri=address, tracking_username="u", tracking_password="never-said")
        with pytest.raises(StackError, match=said) as refused:
            team._check_tracker(config)
    assert "never-said" not in str(refused.value)


def test_an_mlflow_server_of_the_same_series_will_do():
    with answering(200, "3.17.9") as address:
        team._check_tracker(SimpleNamespace(tracking_uri=address, tracking_username=None, tracking_password=None))


def test_a_server_that_is_not_there_is_named():
    config = SimpleNamespace(tracking_uri="http://127.0.0.1:9", tracking_username=None, tracking_password=None)
    with pytest.raises(StackError, match=r"MLflow's server does not answer at http://127\.0\.0\.1:9"):
        team._check_tracker(config)


def test_a_client_that_is_not_installed_is_told_with_what_installs_it(monkeypatch):
    def absent(model):
        raise ModuleNotFoundError("No module named 's3fs'")

    monkeypatch.setattr("zenml.client.Client", lambda: SimpleNamespace(get_stack=lambda *_, **__: None))
    monkeypatch.setattr("zenml.stack.Stack.from_model", absent)
    with pytest.raises(StackError, match=r"No module named 's3fs'\n.*make setup-team"):
        team.check_parts("team")


class Store:
    """A store in memory that fails in one way."""

    path = "s3://zenml"

    def __init__(self, cause: Exception) -> None:
        self.cause = cause

    def open(self, place: str, mode: str):
        del place, mode
        raise self.cause

    def cleanup(self) -> None:
        """Nothing is held."""


def test_a_store_that_takes_no_file_is_refused():
    with pytest.raises(StackError, match="the store does not take a file: no route to host"):
        team._check_store(Store(PermissionError("no route\nto host")))


def test_no_password_of_an_address_is_said(monkeypatch):
    use(monkeypatch, "http://ben:Other-Wq6@other:8080")
    with pytest.raises(StackError, match="this stack is one of") as refused:
        team.check_server("http://anna:Wq6-Wq6-Wq6@team:8080")
    assert "Wq6" not in str(refused.value)
    login = {"tracking_username": "u", "tracking_password": "p"}
    with pytest.raises(StackError, match="the tracker's address holds a secret") as refused:
        team._check_tracker(SimpleNamespace(tracking_uri="http://anna:Wq6-Wq6-Wq6@127.0.0.1:9", **login))
    assert "Wq6" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "password", "warned"),
    [
        ("http://mlflow.example", "never-said", True),
        ("http://mlflow.example", None, False),
        ("https://mlflow.example", "never-said", False),
        ("http://[::1]:5000", "never-said", False),
    ],
)
def test_a_password_that_is_sent_unencrypted_is_warned_of(monkeypatch, caplog, address, password, warned):
    monkeypatch.setattr(team, "_check_version", lambda *_: None)
    team._check_tracker(SimpleNamespace(tracking_uri=address, tracking_username="u", tracking_password=password))
    assert ("so your password at MLflow can be read on its way there" in caplog.text) == warned
    assert "never-said" not in caplog.text
