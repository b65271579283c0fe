"""Runs that register at once: an alias ends at the newest version that was to have it, whoever comes last."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from mlops.home.folder import Home
from mlops.home.locks import aliases_lock
from mlops.registry import aliases as moving
from mlops.registry.aliases import move_aliases
from mlops.registry.client import RegistryClient
from mlops.registry.history import read_history
from mlops.registry.names import DONE_TAG
from rlft.errors import StorageError
from tests.mlops.registry.written import add_version


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> MlflowClient:
    """A client of one MLflow, which is made once."""
    return RegistryClient(f"sqlite:///{tmp_path_factory.mktemp('aliases')}/mlflow.db")


def aliases(client, name):
    return {alias: int(version) for alias, version in client.get_registered_model(name).aliases.items()}


@pytest.mark.slow
@pytest.mark.parametrize("under_lock", [True, False])
def test_fifty_pairs_at_once_leave_the_newest(client, tmp_path, under_lock):
    name = f"pairs-{under_lock}"

    def register(version, promote):
        mine = RegistryClient(client.tracking_uri)
        if under_lock:
            with aliases_lock(Home(tmp_path)):
                move_aliases(mine, name, version, promote=promote)
        else:
            move_aliases(mine, name, version, promote=promote)

    champion = None
    with ThreadPoolExecutor(2) as pool:
        for pair in range(50):
            # Of four pairs both are promoted, the older, the newer, or none.
            promoted = {add_version(client, name, pair % 4 in kinds): pair % 4 in kinds for kinds in ((0, 1), (0, 2))}
            order = sorted(promoted, reverse=pair % 8 < 4)
            for done in [pool.submit(register, version, promoted[version]) for version in order]:
                done.result()
            champion = max([version for version in promoted if promoted[version]], default=champion)
            assert aliases(client, name) == {"challenger": max(promoted), "champion": champion}, pair
    past = read_history(client, name).past
    assert past[-1].version == str(champion)
    assert {each.how for each in past} == {"promoted"}  # two at once are no move outside rlft


def test_one_that_is_overtaken_between_reading_and_setting_moves_no_alias_back(client, monkeypatch):
    old, new = add_version(client, "overtaken", True), add_version(client, "overtaken", True)
    set_alias, overtaken = MlflowClient.set_registered_model_alias, []

    def overtaking(self, name, alias, version):
        if version == str(old) and not overtaken:
            overtaken.append(alias)
            move_aliases(client, name, new, promote=True)
        set_alias(self, name, alias, version)

    monkeypatch.setattr(MlflowClient, "set_registered_model_alias", overtaking)
    move_aliases(client, "overtaken", old, promote=True)
    assert overtaken == ["challenger"]
    assert aliases(client, "overtaken") == {"challenger": new, "champion": new}


def test_a_version_that_comes_late_moves_nothing_back_and_a_rollback_is_not_undone(client):
    first, second, third = (add_version(client, "late", True) for _ in range(3))
    move_aliases(client, "late", second, promote=True)
    move_aliases(client, "late", first, promote=True)
    assert aliases(client, "late") == {"challenger": second, "champion": second}
    client.set_registered_model_alias("late", "champion", str(first))  # by hand
    move_aliases(client, "late", third, promote=False)
    assert aliases(client, "late") == {"challenger": third, "champion": first}


@pytest.mark.parametrize("back_to", [0, 1])
def test_a_run_that_was_killed_before_its_tag_does_not_undo_a_rollback(client, monkeypatch, back_to):
    def cut(*_):
        raise KeyboardInterrupt

    name = f"rolled-{back_to}"
    first, second, third = (add_version(client, name, True) for _ in range(3))
    move_aliases(client, name, first, promote=True)
    with monkeypatch.context() as patch:
        patch.setattr(RegistryClient, "set_model_version_tag", cut)
        with pytest.raises(KeyboardInterrupt):
            move_aliases(client, name, second, promote=True)
    move_aliases(client, name, third, promote=True)
    client.set_registered_model_alias(name, "champion", str((first, second)[back_to]))  # by hand
    move_aliases(client, name, second, promote=True)  # as `rlft resume` does
    assert aliases(client, name) == {"challenger": third, "champion": (first, second)[back_to]}


def test_a_database_that_refuses_is_asked_again_and_then_said(client, monkeypatch):
    version = add_version(client, "refused", False)
    monkeypatch.setattr(moving._set_aliases.retry, "wait", lambda state: 0)
    set_alias, tried = MlflowClient.set_registered_model_alias, []

    def refuses(self, name, alias, version):
        tried.append(alias)
        if len(tried) < allowed:
            raise MlflowException("UNIQUE constraint failed: registered_model_aliases.workspace")
        set_alias(self, name, alias, version)

    monkeypatch.setattr(MlflowClient, "set_registered_model_alias", refuses)
    allowed = 100
    with pytest.raises(MlflowException, match="UNIQUE"):
        move_aliases(client, "refused", version, promote=False)
    assert len(tried) == 5
    assert DONE_TAG not in client.get_model_version("refused", str(version)).tags  # a resume sets it again
    tried.clear()
    allowed = 3
    move_aliases(client, "refused", version, promote=False)
    assert aliases(client, "refused") == {"challenger": version}


def test_who_waits_for_the_lock_in_vain_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("mlops.home.locks._ALIASES_SECONDS", 0.0)
    with (
        aliases_lock(Home(tmp_path)),
        pytest.raises(StorageError, match=f"process {os.getpid()} has been changing the model registry"),
        aliases_lock(Home(tmp_path)),
    ):
        pass
