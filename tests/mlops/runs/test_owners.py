"""Who has begun a run: a server knows it, and a database does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from zenml.client import Client
from zenml.config.global_config import GlobalConfiguration
from zenml.enums import StoreType

from mlops.home.folder import Home
from mlops.home.trusted import trust
from mlops.runs.owners import somebody_else

ANNA, BEN = SimpleNamespace(id=1, name="anna"), SimpleNamespace(id=2, name="ben")
SETTINGS = {"name": "a"}


def run(user: Any) -> Any:
    return SimpleNamespace(user=user, config=SimpleNamespace(parameters={"config": SETTINGS}))


@pytest.fixture
def on(monkeypatch):
    """Makes ZenML one of a server or of a database, whose user is Ben."""

    def use(kind: StoreType) -> None:
        monkeypatch.setattr(
            GlobalConfiguration, "store_configuration", property(lambda self: SimpleNamespace(type=kind))
        )
        monkeypatch.setattr(Client, "active_user", property(lambda self: BEN))

    return use


@pytest.mark.parametrize(("user", "expected"), [(ANNA, "anna"), (BEN, None), (None, "a user who was deleted")])
def test_a_server_knows_who_has_begun_a_run(on, tmp_path, user, expected):
    on(StoreType.REST)
    assert somebody_else(Home(tmp_path), run(user)) == expected


def test_in_a_database_everybody_has_the_same_name(on, tmp_path):
    on(StoreType.SQL)
    assert str(somebody_else(Home(tmp_path), run(BEN))).startswith("another account, in another home")


@pytest.mark.parametrize("kind", [StoreType.SQL, StoreType.REST])
def test_what_this_account_trusts_here_is_nobody_elses(on, tmp_path, kind):
    on(kind)
    trust(Home(tmp_path), SETTINGS)
    assert somebody_else(Home(tmp_path), run(ANNA)) is None
