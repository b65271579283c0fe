"""What is said of a team's stack that lacks something. With real servers: tests/team/test_shared.py."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from zenml.exceptions import AuthorizationException

from mlops.stacks import file
from rlft.errors import StackError


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


def test_no_password_of_an_address_is_said(monkeypatch):
    use(monkeypatch, "http://ben:Other-Wq6@other:8080")
    with pytest.raises(StackError, match="this stack is one of") as refused:
        file.check_server("http://anna:Wq6-Wq6-Wq6@team:8080")
    assert "Wq6" not in str(refused.value)
