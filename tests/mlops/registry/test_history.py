"""The history of a model, whatever was killed where: the last spell is what the alias names."""

from __future__ import annotations

import json

import pytest
from mlflow.exceptions import MlflowException

from mlops.registry import aliases as moving
from mlops.registry import rollback
from mlops.registry.aliases import move_aliases
from mlops.registry.client import RegistryClient
from mlops.registry.history import read_history
from mlops.registry.names import DONE_TAG, NOTED_TAG, PROMOTE_TAG
from mlops.registry.people import Person
from mlops.registry.rollback import roll_back
from mlops.registry.versions import open_name
from tests.mlops.registry.written import CountedClient, Killed, add_version

ANN = Person(name="ann")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """One MLflow, which is made once."""
    return f"sqlite:///{tmp_path_factory.mktemp('history')}/mlflow.db"


@pytest.fixture
def without_files(monkeypatch):
    """Versions in these tests have no files: tests/mlops/registry/test_rollback.py has some that do."""
    monkeypatch.setattr(rollback, "_check", lambda *_: None)


def spells(client, name):
    """The history, and that it ends in what the alias names."""
    found = read_history(client, name)
    named = client.get_registered_model(name).aliases.get("champion")
    assert found.champion == (found.past[-1].version if found.past else None) == (named and str(named))
    assert all(
        one.until is not None and one.until == other.since
        for one, other in zip(found.past, found.past[1:], strict=False)
    )
    return [(each.version, each.how) for each in found.past]


def promote(client, name, version):
    move_aliases(client, name, version, promote=True, who=ANN, why=("passes: base",))


PROMOTED = [("1", "promoted"), ("2", "promoted")]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 7))
def test_a_promotion_that_is_killed_at_any_write_leaves_the_old_champion_or_the_new_one_and_a_true_history(
    address, at, after
):
    client, name = RegistryClient(address), f"killed-{at}-{after}"
    first, second = add_version(client, name), add_version(client, name)
    promote(client, name, first)
    dying = CountedClient(address, at, after=after)
    # The writes of a promotion: challenger, note, champion, note, the version's tag.
    if at == 6:
        promote(dying, name, second)
        assert [kind.split("_")[-1] for kind in dying.written] == ["alias", "tag", "alias", "tag", "tag"]
    else:
        with pytest.raises(Killed):
            promote(dying, name, second)
    expected = PROMOTED if at > 3 or (at == 3 and after) else PROMOTED[:1]
    assert spells(client, name) == expected
    promote(client, name, second)  # as `rlft resume` does
    assert spells(client, name) == PROMOTED
    assert read_history(client, name).past[-1].is_confirmed
    third = add_version(client, name)
    promote(client, name, third)
    assert spells(client, name) == [*PROMOTED, ("3", "promoted")]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 5))
def test_a_rollback_that_is_killed_at_any_write(address, without_files, at, after):
    client, name = RegistryClient(address), f"rolled-{at}-{after}"
    for version in (add_version(client, name), add_version(client, name)):
        promote(client, name, version)
    dying = CountedClient(address, at, after=after)
    if at == 4:
        roll_back(dying, name, None, "it is rude", ANN)
        assert [kind.split("_")[-1] for kind in dying.written] == ["tag", "alias", "tag"]
    else:
        with pytest.raises(Killed):
            roll_back(dying, name, None, "it is rude", ANN)
    has_happened = at > 2 or (at == 2 and after)
    assert spells(client, name) == PROMOTED + [("1", "rolled back")] * has_happened
    if not has_happened:
        roll_back(client, name, None, "it is rude", ANN)
    past = read_history(client, name).past[-1]
    assert (past.version, past.why, past.by, past.is_verified) == ("1", ("it is rude",), "ann", False)
    promote(client, name, 2)  # a resume of the run that made it, which undoes no rollback
    promote(client, name, 1)
    assert spells(client, name) == [*PROMOTED, ("1", "rolled back")]


@pytest.mark.parametrize("at", range(1, 6))
@pytest.mark.parametrize("after", [False, True])
def test_a_server_that_does_not_take_one_write_is_asked_again_and_tells_one_promotion(address, monkeypatch, at, after):
    monkeypatch.setattr(moving._set_aliases.retry, "wait", lambda state: 0)
    client, name = RegistryClient(address), f"away-{at}-{after}"
    promote(CountedClient(address, at, after=after, error=MlflowException), name, add_version(client, name))
    assert spells(client, name) == PROMOTED[:1]
    noted = [key for key in client.get_registered_model(name).tags if key.startswith("rlft.change")]
    assert len(noted) == 2  # one beginning, one end


def test_a_promotion_killed_behind_the_alias_and_then_rolled_back_is_not_made_again_by_its_resume(
    address, without_files
):
    client, name = RegistryClient(address), "resumed"
    first, second = add_version(client, name), add_version(client, name)
    promote(client, name, first)
    with pytest.raises(Killed):
        promote(CountedClient(address, 3, after=True), name, second)
    roll_back(client, name, None, "slow", ANN)
    promote(client, name, second)
    assert spells(client, name) == [*PROMOTED, ("1", "rolled back")]
    assert not read_history(client, name).past[1].is_confirmed


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
    assert roll_back(client, name, None, "slow", ANN).version == "2"  # which 3 has replaced


def test_promotions_by_an_earlier_rlft_are_told_by_the_times_of_their_versions(address):
    client, name = RegistryClient(address), "earlier"
    open_name(address, name)
    for number in ("1", "2"):
        tags = {PROMOTE_TAG: "true", DONE_TAG: "true", "rlft.reasons": "passes: base\nlook 1"}
        made = client.create_model_version(name, source="file:/x", tags=tags)
        client.set_registered_model_alias(name, "champion", number)
    client.create_model_version(name, source="file:/x", tags={PROMOTE_TAG: "false", DONE_TAG: "true"})
    promote(client, name, add_version(client, name))
    assert spells(client, name) == [("1", "promoted"), ("2", "promoted"), ("4", "promoted")]
    _, second, last = read_history(client, name).past
    assert (second.by, second.why) == (None, ("passes: base", "look 1"))
    assert second.since
    assert second.since.timestamp() * 1000 == made.creation_timestamp
    assert last.by == "ann"


def test_a_late_version_of_this_rlft_that_was_never_champion_is_in_no_history(address):
    client, name = RegistryClient(address), "late"
    older, newer = add_version(client, name), add_version(client, name)
    promote(client, name, newer)
    promote(client, name, older)
    assert client.get_model_version(name, str(older)).tags[DONE_TAG] == "true"
    assert NOTED_TAG in client.get_model_version(name, str(older)).tags
    assert spells(client, name) == [("2", "promoted")]


def test_the_json_says_times_in_utc_and_who(address):
    client, name = RegistryClient(address), "as-json"
    promote(client, name, add_version(client, name))
    found = json.loads(json.dumps(read_history(client, name).as_json()))
    [past] = found.pop("history")
    assert found == {"name": name, "champion": "1", "waiting": [], "not_promoted": []}
    assert past["since"] == past["since_earliest"]
    assert past["since"].endswith("+00:00")
    assert (past["until"], past["by"], past["verified"], past["why"]) == (None, "ann", False, ["passes: base"])


def test_versions_that_were_not_promoted_are_told_with_the_rules_that_failed(address):
    client, name = RegistryClient(address), "not-promoted"
    said = "look 1 of 20\nfails: it loses to base\npasses: it beats the constant answer"
    for _ in range(2):
        add_version(client, name, promote=False, **{"rlft.reasons": said})
    promote(client, name, add_version(client, name))
    verdict = '{"verdict": "rejected", "who": {"name": "bob"}, "at": "2026-11-25T10:00:00Z", "why": "it is rude"}'
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
