"""What is said of a team's stack that lacks something. With real servers: tests/team/test_shared.py."""

from __future__ import annotations

import threading
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest
from zenml.exceptions import AuthorizationException

from mlops.stacks import file
from mlops.tracking.address import CREDENTIALS
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
        file.check_server("http://team:8080")
    use(monkeypatch, "http://other:8080")
    with pytest.raises(StackError, match="your ZenML uses http://other:8080"):
        file.check_server("http://team:8080")


@pytest.mark.parametrize("cause", [AuthorizationException("expired"), RuntimeError("expired"), None])
def test_a_login_that_has_expired_is_told_with_the_way_to_a_new_one(monkeypatch, cause):
    class Client:
        @property
        def active_user(self):
            if cause is not None:
                raise cause

    monkeypatch.setattr(file, "Client", Client)
    use(monkeypatch, address := "http://team:8080")
    told = nullcontext() if cause is None else pytest.raises(StackError, match=f"expired\n.*login {address} --refresh")
    with told:
        file.check_server(f"{address}/")  # a slash at the end is no other server


@pytest.mark.parametrize(("status", "text"), [(200, "<html>Sign in</html>"), (401, "You are not authenticated")])
def test_an_mlflow_server_that_will_not_do_is_refused(monkeypatch, status, text):
    for variable in CREDENTIALS.values():
        monkeypatch.setenv(variable, "")
    with answering(status, text) as address:
        config = SimpleNamespace(tracking_uri=address, tracking_username="u", tracking_password="never-said")
        with pytest.raises(StackError) as refused:
            file.check_tracker(SimpleNamespace(config=config))
    assert refused.value.where == address
    assert "never-said" not in str(refused.value)


def test_a_client_that_is_not_installed_is_told_with_what_installs_it(monkeypatch):
    def absent(model):
        raise ModuleNotFoundError("No module named 's3fs'")

    monkeypatch.setattr(file, "Client", lambda: SimpleNamespace(get_stack=lambda *_, **__: None))
    monkeypatch.setattr("zenml.stack.Stack.from_model", absent)
    with pytest.raises(StackError, match=r"No module named 's3fs'\n.*make setup-team"):
        file.check_parts("team")


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
        file._check_store(Store(PermissionError("no route\nto host")))


def test_no_password_of_an_address_is_said(monkeypatch):
    use(monkeypatch, "http://ben:Other-Wq6@other:8080")
    with pytest.raises(StackError, match="this stack is one of") as refused:
        file.check_server("http://anna:Wq6-Wq6-Wq6@team:8080")
    assert "Wq6" not in str(refused.value)
    login = {"tracking_username": "u", "tracking_password": "p"}
    config = SimpleNamespace(tracking_uri="http://anna:Wq6-Wq6-Wq6@127.0.0.1:9", **login)
    with pytest.raises(StackError, match="the tracker's address holds a secret") as refused:
        file.check_tracker(SimpleNamespace(config=config))
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
    monkeypatch.setattr(file, "answering", lambda *_: pytest.raises(TypeError))
    monkeypatch.setattr("mlflow.MlflowClient", None)
    monkeypatch.setattr(file, "use_credentials", lambda *_: None)
    config = SimpleNamespace(tracking_uri=address, tracking_username="u", tracking_password=password)
    file.check_tracker(SimpleNamespace(config=config))
    assert ("so your password at MLflow can be read on its way there" in caplog.text) == warned
    assert "never-said" not in caplog.text
