"""The cores of this process: those that it may run on, and that its control groups pay for."""

from __future__ import annotations

import os

import pytest

from rlft.environments.workers.pool import cores_here


@pytest.mark.parametrize(
    ("limits", "cores"),
    [
        ({}, 16),
        ({"": "max 100000"}, 16),
        ({"": "400000 100000"}, 4),  # what a container sees of its own limit
        ({"pods/one": "250000 100000"}, 2),  # two and a half
        ({"pods/one": "max 100000", "pods": "300000 100000"}, 3),  # a group above pays for no more
        ({"pods/one": "50000 100000"}, 1),  # half a core is one
        ({"pods/other": "100000 100000"}, 16),
        ({"": "3200000 100000"}, 16),
    ],
)
def test_limits_of_control_groups_count(tmp_path, monkeypatch, limits, cores):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(16)), raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    (tmp_path / "groups" / "pods" / "one").mkdir(parents=True)
    (tmp_path / "groups" / "pods" / "other").mkdir()
    for group, limit in limits.items():
        (tmp_path / "groups" / group / "cpu.max").write_text(f"{limit}\n")
    (tmp_path / "own").write_text("1:cpu:/old\n0::/pods/one\n")
    assert cores_here(tmp_path / "groups", tmp_path / "own") == cores


def test_a_set_of_cores_counts_also_without_control_groups(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {3, 5}, raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    assert cores_here(tmp_path, tmp_path / "nothing") == 2


def test_of_this_process_as_it_is():
    assert 1 <= cores_here() <= (os.cpu_count() or 1)
