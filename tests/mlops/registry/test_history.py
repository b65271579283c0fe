"""The history of a model, whatever was killed where: the last spell is what the alias names."""

from __future__ import annotations

import json

import pytest

from mlops.registry import decisions
from mlops.registry.changes import Person
from mlops.registry.client import RegistryClient
from mlops.registry.decisions import roll_back, set_aliases
from mlops.registry.history import read_history
from rlft.errors import RefusedError
from tests.mlflow_stores import new_store
from tests.mlops.registry.written import CountedClient, Killed, add_version

ANN = Person(name="ann")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """One MLflow, which is made once."""
    return new_store(tmp_path_factory.mktemp("history"))


@pytest.fixture
def without_files(monkeypatch):
    """Versions in these tests have no files: tests/mlops/registry/test_rollback.py has some that do."""
    monkeypatch.setattr(decisions, "_check_files", lambda *_: None)


def spells(client, name):
    """The history, and that it ends in what the alias names."""
    found = read_history(client, name)
    named = client.get_registered_model(name).aliases.get("champion")
    assert found.champion == (found.past[-1].version if found.past else None) == (named and str(named))
    assert all(one.until == other.since for one, other in zip(found.past, found.past[1:], strict=False))
    return [(each.version, each.how) for each in found.past]


def promote(client, name, version):
    set_aliases(client, client.get_model_version(name, str(version)))


PROMOTED = [("1", "promoted"), ("2", "promoted")]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 5))
def test_a_promotion_that_is_killed_at_any_write_leaves_the_old_champion_or_the_new_one_and_a_true_history(
    address, at, after
):
    client, name = RegistryClient(address), f"killed-{at}-{after}"
    first, second = add_version(client, name), add_version(client, name)
    promote(client, name, first)
    dying = CountedClient(address, at, after=after)
    if at == 4:
        promote(dying, name, second)
        assert [kind.split("_")[-1] for kind in dying.written] == [
            "alias",
            "tag",
            "alias",
        ]  # challenger, note, champion
    else:
        with pytest.raises(Killed):
            promote(dying, name, second)
    has_happened = at == 4 or (at == 3 and after)
    assert spells(client, name) == PROMOTED[: 1 + has_happened]
    promote(client, name, second)  # as `rlft resume` does
    assert spells(client, name) == PROMOTED
    promote(client, name, add_version(client, name))
    assert spells(client, name) == [*PROMOTED, ("3", "promoted")]
    assert client.get_registered_model(name).aliases == {"challenger": 3, "champion": 3}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", [1, 2])
def test_a_rollback_that_is_killed_at_any_write(address, without_files, at, after):
    """The writes are the note and the alias."""
    client, name = RegistryClient(address), f"rolled-{at}-{after}"
    for version in (add_version(client, name), add_version(client, name)):
        promote(client, name, version)
    with pytest.raises(Killed):
        roll_back(CountedClient(address, at, after=after), name, None, "it is rude", ANN)
    has_happened = at == 2 and after
    assert spells(client, name) == PROMOTED + [("1", "rolled back")] * has_happened
    if not has_happened:
        roll_back(client, name, None, "it is rude", ANN)
    past = read_history(client, name).past[-1]
    assert (past.version, past.why, past.by, past.verified) == ("1", ["it is rude"], "ann", False)
    promote(client, name, 2)  # a resume of the run that made it, which undoes no rollback
    promote(client, name, 1)
    assert spells(client, name) == [*PROMOTED, ("1", "rolled back")]


def test_a_champion_that_is_moved_while_somebody_decides_stays(address, monkeypatch):
    client, name = RegistryClient(address), "meanwhile"
    for _ in range(3):
        promote(client, name, add_version(client, name))
    moving = lambda *_: client.set_registered_model_alias(name, "champion", "1")  # noqa: E731
    monkeypatch.setattr(decisions, "_check_files", moving)
    with pytest.raises(RefusedError):
        roll_back(client, name, None, "slow", ANN)
    assert spells(client, name)[-1] == ("1", "moved outside rlft")


def test_a_version_that_comes_late_moves_nothing_back(address):
    client, name = RegistryClient(address), "late"
    first, second, third = (add_version(client, name, promoted) for promoted in (True, True, False))
    promote(client, name, second)
    promote(client, name, first)
    assert client.get_registered_model(name).aliases == {"challenger": second, "champion": second}
    client.set_registered_model_alias(name, "champion", str(first))  # by hand
    promote(client, name, third)
    promote(client, name, second)
    assert client.get_registered_model(name).aliases == {"challenger": third, "champion": first}


def test_moves_of_other_clients_are_told_as_far_as_they_can_be_known(address, without_files):
    client, name = RegistryClient(address), "by-hand"
    versions = [add_version(client, name) for _ in range(3)]
    promote(client, name, versions[0])
    client.set_registered_model_alias(name, "champion", "2")
    assert spells(client, name) == [("1", "promoted"), ("2", "moved outside rlft")]
    promote(client, name, versions[2])
    client.delete_registered_model_alias(name, "champion")
    told = [("1", "promoted"), ("2", "moved outside rlft"), ("3", "promoted")]
    assert spells(client, name) == [*told, (None, "moved outside rlft")]
    client.set_registered_model_alias(name, "champion", "3")
    assert spells(client, name) == told  # nobody of rlft saw that it was away
    assert roll_back(client, name, None, "slow", ANN).to == "2"  # which 3 has replaced


def test_the_json_says_times_in_utc_and_who(address):
    client, name = RegistryClient(address), "as-json"
    promote(client, name, add_version(client, name, **{"rlft.reasons": "passes: base"}))
    found = json.loads(json.dumps(read_history(client, name).as_json()))
    [past] = found.pop("history")
    assert found == {"name": name, "champion": "1", "waiting": [], "not_promoted": []}
    assert past["since"].endswith("+00:00")
    assert "@" in past["by"]
    assert (past["until"], past["verified"], past["why"]) == (None, False, ["passes: base"])


def test_versions_that_were_not_promoted_are_told_with_the_rules_that_failed(address):
    client, name = RegistryClient(address), "not-promoted"
    said = "look 1 of 20\nfails: it loses to base\npasses: it beats the constant answer"
    for _ in range(2):
        add_version(client, name, promote=False, **{"rlft.reasons": said})
    promote(client, name, add_version(client, name))
    verdict = (
        '{"kind": "rejection", "to": "4", "who": {"name": "bob"}, "at": "2026-11-25T10:00:00Z", "why": ["it is rude"]}'
    )
    add_version(client, name, **{"rlft.approval": "rejected", "rlft.verdict": verdict})
    later = {"rlft.decided_again": "fails: it loses to the champion"}
    add_version(client, name, **{"rlft.withheld": "its rival was taken back"}, **later)
    add_version(client, name, **{"rlft.approval": "pending"})
    client.set_model_version_tag(name, "1", "rlft.decided_again", "fails: it loses to base")  # as before
    client.set_registered_model_alias(name, "champion", "2")  # whoever makes it champion has it in the history
    assert read_history(client, name).as_json()["not_promoted"] == [
        {"version": "5", "why": ["its rival was taken back"], "again": ["fails: it loses to the champion"]},
        {"version": "4", "why": ["rejected by bob (unverified), 2026-11-25 10:00 UTC: it is rude"], "again": []},
        {"version": "1", "why": ["fails: it loses to base"], "again": []},
    ]
