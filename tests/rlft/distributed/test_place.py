"""Where processes are: whether they meet on loopback, and whose number means a process of this machine."""

from __future__ import annotations

import os

import pytest

from rlft.distributed import trainer_actor
from rlft.distributed.trainer_actor import Place, are_together

OWN = Place(7, "10.0.0.7", "pid:[1]")


@pytest.mark.parametrize(
    ("others", "together"),
    [
        ([], True),
        ([Place(8, "10.0.0.7", "pid:[1]")], True),
        ([Place(7, "10.0.0.7", "pid:[2]")], True),  # containers of one pod
        ([Place(7, "10.0.0.8", "pid:[1]")], False),  # a clone: another machine, whatever its name is
        ([Place(8, "10.0.0.7", "pid:[1]"), Place(9, "10.0.0.8", "pid:[1]")], False),
    ],
)
def test_processes_meet_on_loopback_only_where_they_have_one_address(others, together):
    assert are_together([OWN, *others]) == together


@pytest.mark.parametrize(
    ("other", "seen"),
    [
        (Place(8, "10.0.0.7", "pid:[1]"), True),
        (Place(8, "10.0.0.8", "pid:[1]"), False),  # every kernel gives its first namespace the same name
        (Place(8, "10.0.0.7", "pid:[2]"), False),  # process 8 of another container is somebody else here
    ],
)
def test_a_number_names_a_process_only_on_its_machine_and_in_its_container(other, seen):
    assert OWN.sees(other) == seen


def test_the_machines_own_name_says_nothing(monkeypatch):
    monkeypatch.setattr("platform.node", lambda: "same")
    monkeypatch.setattr(trainer_actor, "address_here", lambda: "10.0.0.7")
    one = Place.here()
    monkeypatch.setattr(trainer_actor, "address_here", lambda: "10.0.0.8")
    two = Place.here()
    assert one.pid == two.pid == os.getpid()
    assert not one.sees(two)
    assert not are_together([one, two])
