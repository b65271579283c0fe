"""The history of a model, whatever was killed where: the last spell is what the alias names."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from mlops.home.folder import Home
from mlops.home.processes import aliases_lock
from mlops.registry import decisions
from mlops.registry.client import RegistryClient
from mlops.registry.decisions import Change, find_moves, read_history, read_ledger, roll_back, set_aliases
from rlft.errors import RefusedError, StorageError
from tests.mlflow_stores import new_store
from tests.mlops.registry.small_policy import SmallRegistry
from tests.mlops.registry.written import CountedClient, Killed, add_version

ANN = "ann"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """One MLflow, which is made once."""
    return new_store(tmp_path_factory.mktemp("history"))


@pytest.fixture
def without_files(monkeypatch):
    """Versions in these tests have no files."""
    monkeypatch.setattr(decisions, "_check_files", lambda *_: None)


def spells(client, name):
    """The history, and that it ends in what the alias names."""
    found = read_history(client, name)
    named = client.get_registered_model(name).aliases.get("champion")
    assert found.champion == (found.history[-1].version if found.history else None) == (named and str(named))
    assert all(one.until == other.since for one, other in zip(found.history, found.history[1:], strict=False))
    return [(each.version, each.how) for each in found.history]


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
    past = read_history(client, name).history[-1]
    assert (past.version, past.why, past.by) == ("1", ["it is rude"], "ann")
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
    found = json.loads(json.dumps(read_history(client, name).model_dump(mode="json")))
    [past] = found.pop("history")
    assert found == {"name": name, "champion": "1", "waiting": [], "not_promoted": []}
    assert past["since"].endswith("Z")
    assert "@" in past["by"]
    assert (past["until"], past["why"]) == (None, ["passes: base"])


def test_versions_that_were_not_promoted_are_told_with_the_rules_that_failed(address):
    client, name = RegistryClient(address), "not-promoted"
    said = "look 1 of 20\nfails: it loses to base\npasses: it beats the constant answer"
    for _ in range(2):
        add_version(client, name, promote=False, **{"rlft.reasons": said})
    promote(client, name, add_version(client, name))
    verdict = '{"kind": "rejection", "to": "4", "who": "bob", "at": "2026-11-25T10:00:00Z", "why": "it is rude"}'
    add_version(client, name, **{"rlft.approval": "rejected", "rlft.verdict": verdict})
    add_version(client, name, **{"rlft.withheld": "its rival was taken back"})
    add_version(client, name, **{"rlft.approval": "pending"})
    client.set_registered_model_alias(name, "champion", "2")  # whoever makes it champion has it in the history
    assert read_history(client, name).model_dump()["not_promoted"] == [
        {"version": "5", "why": ["its rival was taken back"]},
        {"version": "4", "why": ["rejected by bob, 2026-11-25 10:00 UTC: it is rude"]},
        {"version": "1", "why": ["fails: it loses to base"]},
    ]


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
    with pytest.raises(RefusedError) as refused:
        back(registry)
    assert "champions were the versions 2, 3" in refused.value.fix
    assert (back(registry, "3"), registry.champion()) == ("3", "3")
    assert registry.register(promote=False).aliases == ("challenger",)
    assert registry.champion() == "3"
    assert registry.register().aliases == ("challenger", "champion")
    past = read_history(registry.client, registry.name).history
    assert [each.version for each in past] == ["1", "2", "3", "2", "1", "3", "5"]
    assert [each.how for each in past[3:]] == ["rolled back", "rolled back", "rolled back", "promoted"]
    assert {each.by for each in past if each.how == "rolled back"} == {"ann"}
    assert past[0].why == ["passes: base"]
    assert past[0].by
    assert "@" in past[0].by


def test_what_is_refused_changes_nothing(registry):
    registry.register(promote=False)
    with pytest.raises(RefusedError) as refused:
        back(registry)
    assert refused.value.what == "there is no champion"
    registry.register()
    for version in (None, "1", "9", "2"):  # none before, never champion, not there, champion already
        with pytest.raises(RefusedError):
            back(registry, version)
    assert registry.champion() == "2"
    assert len(read_history(registry.client, registry.name).history) == 1


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
    waiting = pytest.raises(StorageError, match="another process ")
    with aliases_lock(Home(tmp_path)), waiting, aliases_lock(Home(tmp_path)):
        pass


START = datetime(2026, 11, 20, tzinfo=UTC)


def change(hour, before, to, kind="promotion"):
    return Change(kind=kind, before=before, to=to, who="ann", at=START + timedelta(hours=hour))


FIRST, SECOND, BACK = change(0, None, "1"), change(1, "1", "2"), change(2, "2", "1", "rollback")


@pytest.mark.parametrize(
    ("changes", "champion", "expected"),
    [
        ([], None, []),
        ([FIRST], "1", [("1", True)]),
        ([FIRST], None, []),  # killed before the alias was written
        ([FIRST, SECOND, BACK], "1", [("1", True), ("2", True), ("1", True)]),
        ([FIRST, SECOND, BACK], "2", [("1", True), ("2", True)]),  # the last was killed before the alias
        ([FIRST, SECOND, change(2, "1", "3")], "3", [("1", True), ("3", True)]),  # 3 saw what 2 began from
        ([FIRST, SECOND, change(2, "1", "2")], "2", [("1", True), ("2", True)]),  # given again after a kill
        ([], "2", [("2", False)]),  # by another client, as are the next ones
        ([FIRST], "5", [("1", True), ("5", False)]),
        ([FIRST, change(1, "2", "3")], "3", [("1", True), ("2", False), ("3", True)]),
        ([FIRST, SECOND], "3", [("1", True), ("2", True), ("3", False)]),
        ([change(0, "4", "5")], "5", [("4", False), ("5", True)]),
    ],
)
def test_a_change_was_made_unless_the_alias_was_seen_afterwards_where_it_began(changes, champion, expected):
    moves = find_moves(changes, champion)
    assert [(move.to, move.change is not None) for move in moves] == expected
    assert all(one.to == other.before for one, other in pairwise(moves))


def test_notes_are_read_in_the_order_of_their_times(address):
    client, name = RegistryClient(address), "order"
    add_version(client, name)
    for key, each in (("a", BACK), ("b", FIRST), ("c", SECOND)):
        client.set_registered_model_tag(name, f"mlflow.rlft.change.{key}", each.model_dump_json())
    client.set_registered_model_alias(name, "champion", "1")
    assert [move.change for move in read_ledger(client, name).moves] == [FIRST, SECOND, BACK]


def test_a_version_that_another_client_made_champion_waits_on_until_it_is_approved(address):
    client, name = RegistryClient(address), "waits"
    number = str(add_version(client, name, **{"rlft.approval": "pending"}))
    client.set_registered_model_alias(name, "champion", number)
    version = client.get_model_version(name, number)
    assert read_ledger(client, name).waits(version)
    approval = change(1, None, number, "approval").model_dump_json()
    client.set_registered_model_tag(name, "mlflow.rlft.change.x", approval)  # cut short before the version's tag
    assert not read_ledger(client, name).waits(version)
