"""Approving and rejecting versions that wait, and what must not have moved meanwhile."""

from __future__ import annotations

import pytest

from mlops.registry.client import RegistryClient, version_of
from mlops.registry.decisions import approval_of, approve, decided_with, read_history, reject, roll_back
from mlops.registry.names import HASH_TAG
from rlft.errors import RefusedError
from tests.mlops.registry.small_policy import SmallRegistry
from tests.mlops.registry.written import CountedClient, Killed

ANN, BOB = "ann", "bob"
LOOK = "mlflow.rlft.look.gate.asked"


def compared_with(registry, champion):
    """Tags of a version that was compared with this champion."""
    tags = registry.client.get_model_version(registry.name, champion).tags
    return decided_with(champion, tags[HASH_TAG], LOOK)


class Waiting(SmallRegistry):
    """A registry whose version 1 is champion, and whose version 2 waits."""

    def __init__(self, folder):
        super().__init__(folder)
        self.register()
        self.client.set_registered_model_tag(self.name, LOOK, "3/20/0.15")
        self.wait()

    def wait(self, **options):
        """Register a version that was compared with the champion of now, and waits."""
        return self.register(tags=compared_with(self, self.champion()), approval=True, **options)

    def approve(self, version="2", client=None, who=ANN):
        return approve(client or self.client, version_of(self.client, self.name, version), "it is polite", who)

    def reject(self, version="2", client=None):
        return reject(client or self.client, version_of(self.client, self.name, version), "it is rude", BOB)

    def state(self, version="2"):
        return approval_of(self.client.get_model_version(self.name, version).tags)

    def told(self):
        return [(each.version, each.how) for each in read_history(self.client, self.name).history]


@pytest.fixture
def registry(tmp_path):
    return Waiting(tmp_path)


def test_a_version_waits_and_is_approved(registry):
    tags = registry.client.get_model_version("small", "2").tags
    assert (tags["rlft.approval"], tags["rlft.promote"], registry.champion()) == ("pending", "true", "1")
    assert read_history(registry.client, "small").waiting == ["2"]
    assert registry.approve() == "1"
    assert registry.champion() == "2"
    tags = registry.client.get_model_version("small", "2").tags
    assert tags["rlft.approval"] == "approved"
    last = read_history(registry.client, "small").history[-1]
    assert (last.version, last.how, last.by) == ("2", "approved", "ann")
    assert (last.why, last.reason) == (["it is polite", "passes: base"], "it is polite")
    assert read_history(registry.client, "small").waiting == []
    for decide in (registry.approve, registry.reject):
        with pytest.raises(RefusedError):
            decide()
    assert registry.champion() == "2"


def test_a_rejected_version_stays_the_challenger_and_is_not_approved_later(registry):
    registry.reject()
    assert (registry.champion(), registry.state()) == ("1", "rejected")
    assert registry.client.get_registered_model("small").aliases["challenger"] == 2
    for decide in (registry.approve, registry.reject):
        with pytest.raises(RefusedError):
            decide()
    assert registry.told() == [("1", "promoted")]


def test_what_does_not_wait_is_neither_approved_nor_rejected(registry):
    registry.register(promote=False, approval=True)
    registry.register()
    for version in ("3", "4"):
        for decide in (registry.approve, registry.reject):
            with pytest.raises(RefusedError):
                decide(version)


def harmed(registry):
    file = registry.weights("2")
    file.write_bytes(file.read_bytes()[:-1] + b"!")


@pytest.mark.parametrize(
    ("move", "said"),
    [
        (harmed, "have sha256"),
        (lambda registry: registry.register(), "was compared with version 1, and now version 3 is champion"),
        (
            lambda r: r.client.delete_registered_model_alias("small", "champion"),
            "was compared with version 1, and now no version is champion",
        ),
    ],
)
def test_nothing_may_have_moved(registry, move, said):
    move(registry)
    before = registry.champion()
    with pytest.raises(RefusedError, match=said) as refused:
        registry.approve()
    assert refused.value.exit_code == 6
    assert (registry.champion(), registry.state()) == (before, "pending")


def test_a_first_champion_can_be_approved(tmp_path):
    registry = SmallRegistry(tmp_path)
    registry.client.create_registered_model("small")
    registry.client.set_registered_model_tag("small", LOOK, "1/1/1.0")
    registry.register(tags=decided_with("", "", LOOK), approval=True)
    assert registry.champion() is None
    assert approve(registry.client, version_of(registry.client, "small", "1"), "", ANN) is None
    assert registry.champion() == "1"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 4))
def test_an_approval_that_is_killed_at_any_write_is_ended_by_the_next_one(registry, at, after):
    """The writes: the note, the alias, the tag that people search by."""
    with pytest.raises(Killed):
        registry.approve(client=CountedClient(registry.client.tracking_uri, at, after=after))
    has_happened = at > 2 or (at == 2 and after)
    assert registry.champion() == ("2" if has_happened else "1")
    assert registry.told() == [("1", "promoted")] + [("2", "approved")] * has_happened
    assert read_history(registry.client, "small").waiting == ([] if has_happened else ["2"])
    if has_happened:
        with pytest.raises(RefusedError):
            registry.reject()
    if registry.state() == "pending":
        assert registry.approve() == "1"
    assert (registry.champion(), registry.state()) == ("2", "approved")
    assert registry.told() == [("1", "promoted"), ("2", "approved")]


def test_an_approval_that_another_person_ends_stays_the_first_ones(registry):
    with pytest.raises(Killed):
        registry.approve(client=CountedClient(registry.client.tracking_uri, 2, after=True))
    approve(registry.client, version_of(registry.client, "small", "2"), "never mind", BOB)
    past = read_history(registry.client, "small").history[-1]
    assert (past.by, past.reason) == ("ann", "it is polite")


def test_an_approval_that_was_cut_off_before_the_alias_is_the_one_of_who_approves_at_last(registry):
    with pytest.raises(Killed):
        registry.approve(client=CountedClient(registry.client.tracking_uri, 2))
    registry.approve(who=BOB)
    assert registry.told() == [("1", "promoted"), ("2", "approved")]
    assert read_history(registry.client, "small").history[-1].by == "bob"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", [1, 2])
def test_a_rejection_that_is_killed_has_been_made_or_not(registry, at, after):
    with pytest.raises(Killed):
        registry.reject(client=CountedClient(registry.client.tracking_uri, at, after=after))
    was_made = at == 2 and after
    assert registry.state() == ("rejected" if was_made else "pending")
    assert read_history(registry.client, "small").waiting == ([] if was_made else ["2"])
    if not was_made:
        registry.reject()
    with pytest.raises(RefusedError):
        registry.approve()


def test_a_registration_that_is_repeated_undoes_no_decision_and_asks_for_none_again(registry):
    folder = registry.folder / "policy-2"
    run_id = registry.client.get_model_version("small", "2").run_id
    registry.approve()
    roll_back(registry.client, "small", None, "rude after all", BOB)
    found = registry.again(folder, run_id)
    assert (found.version, found.approval, found.aliases) == ("2", "approved", ("challenger",))
    assert registry.champion() == "1"
    with pytest.raises(RefusedError):
        registry.approve()


def test_a_version_whose_rival_was_taken_back_meanwhile_undoes_no_rollback(registry):
    """Version 3 was compared with 2, which was rolled back before 3 was registered."""
    registry.approve()
    compared = compared_with(registry, "2")
    roll_back(registry.client, "small", None, "rude", BOB)
    found = registry.register(tags=compared)
    assert found.aliases == ("challenger",)
    assert "it was compared with version 2, and now version 1 is champion; `rlft promote" in found.withheld
    assert registry.champion() == "1"
    assert registry.register(tags=compared_with(registry, "1")).withheld == ""
    assert registry.champion() == "4"


def test_of_two_that_were_compared_with_the_same_champion_the_second_is_withheld(tmp_path):
    """Both asked before either was registered; the second may be the worse one, and nobody has compared them."""
    registry = SmallRegistry(tmp_path)
    alike = decided_with("", "", LOOK)
    assert registry.register(tags=alike).aliases == ("challenger", "champion")
    second = registry.register(tags=alike)
    assert second.aliases == ("challenger",)
    assert "it was compared with no version, and now version 1 is champion" in second.withheld
    assert registry.champion() == "1"
    third = registry.register(tags=compared_with(registry, "1"))  # compared with the first, as it should be
    assert (third.withheld, registry.champion()) == ("", "3")


def test_the_client_that_people_use_searches_for_what_waits(registry):
    client = RegistryClient(registry.client.tracking_uri)
    [found] = client.search_model_versions("name = 'small' AND tags.`rlft.approval` = 'pending'")
    assert str(found.version) == "2"
