"""Rolling back versions that have files, and what is refused."""

from __future__ import annotations

import os

import pytest

from mlops.home.folder import Home
from mlops.home.processes import aliases_lock
from mlops.registry.changes import Person
from mlops.registry.decisions import roll_back
from mlops.registry.history import read_history
from rlft.errors import RefusedError, StorageError
from tests.mlops.registry.small_policy import SmallRegistry

ANN = Person(name="ann", verified=True)


@pytest.fixture
def registry(tmp_path):
    return SmallRegistry(tmp_path)


def back(registry, to=None):
    return roll_back(registry.client, registry.name, to, "it is rude", ANN).to


def test_one_rollback_after_another_goes_ever_further_back_and_can_be_undone(registry):
    for _ in range(3):
        registry.register()
    assert (back(registry), registry.champion()) == ("2", "2")
    assert (back(registry), registry.champion()) == ("1", "1")
    with pytest.raises(RefusedError, match="there was no champion before version 1") as refused:
        back(registry)
    assert "champions were the versions 2, 3" in refused.value.fix
    assert (back(registry, "3"), registry.champion()) == ("3", "3")
    assert registry.register(promote=False).aliases == ("challenger",)
    assert registry.champion() == "3"
    assert registry.register().aliases == ("challenger", "champion")
    past = read_history(registry.client, registry.name).past
    assert [each.version for each in past] == ["1", "2", "3", "2", "1", "3", "5"]
    assert [each.how for each in past[3:]] == ["rolled back", "rolled back", "rolled back", "promoted"]
    assert {(each.by, each.verified) for each in past if each.how == "rolled back"} == {("ann", True)}
    assert past[0].why == ["passes: base"]
    assert past[0].by
    assert "@" in past[0].by
    assert not past[0].verified


def test_what_is_refused_changes_nothing(registry):
    registry.register(promote=False)
    with pytest.raises(RefusedError, match="there is no champion to take back"):
        back(registry)
    registry.register()
    with pytest.raises(RefusedError, match="there was no champion before version 2") as refused:
        back(registry)
    assert refused.value.fix == "approve another version, or remove the alias champion in MLflow to have no champion"
    with pytest.raises(RefusedError, match="version 1 was never champion"):
        back(registry, "1")
    with pytest.raises(RefusedError, match="version 9 was never champion"):
        back(registry, "9")
    with pytest.raises(RefusedError, match="version 2 is the champion already"):
        back(registry, "2")
    assert registry.champion() == "2"
    assert len(read_history(registry.client, registry.name).past) == 1


@pytest.mark.parametrize("harm", ["changed", "gone", "deleted"])
def test_a_champion_whose_files_are_not_whole_does_not_come_back(registry, harm):
    for _ in range(3):
        registry.register()
    if harm == "changed":
        file = registry.weights("2")
        file.write_bytes(file.read_bytes()[:-1] + b"!")
    elif harm == "gone":
        registry.weights("2").unlink()
    else:
        registry.client.delete_model_version(registry.name, "2")
    with pytest.raises(RefusedError, match="models:/small/2: ") as refused:
        back(registry)
    assert refused.value.exit_code == 6
    assert "champions were the versions 1" in refused.value.fix
    assert registry.champion() == "3"
    assert back(registry, "1") == "1"


def test_who_waits_for_the_lock_in_vain_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("mlops.home.processes._ALIASES_SECONDS", 0.0)
    waiting = pytest.raises(StorageError, match=f"process {os.getpid()} ")
    with aliases_lock(Home(tmp_path)), waiting, aliases_lock(Home(tmp_path)):
        pass
