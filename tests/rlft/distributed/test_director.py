"""What runs in the process that uses Ray, without Ray: whatever goes wrong there is an answer."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlft.config import DistributedConfig
from rlft.distributed import director, existing_cluster
from rlft.distributed.demand import Demand
from rlft.distributed.director import Done, Failed, look
from rlft.distributed.existing_cluster import ExistingCluster
from rlft.errors import DamagedError, DistributedError
from tests.needs import need_ray

DEMAND = Demand(DistributedConfig(engine="ray", trainers=2, address="auto"), on_gpu=False, trainers=2)


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Keep this process's variables, session and signals."""
    monkeypatch.setattr("os.environ", dict(os.environ))
    monkeypatch.setattr(director, "_stand_alone", lambda: None)
    monkeypatch.setattr(director, "_end_by_sigterm", lambda: None)


@pytest.fixture
def ray(monkeypatch):
    """Ray, of a cluster that has been joined."""
    made = SimpleNamespace(shutdown=lambda: None)
    monkeypatch.setattr(existing_cluster, "_join", lambda address: made)
    return made


def said_of(folder: Path) -> DistributedError:
    said: list[Any] = []
    look(SimpleNamespace(send=said.append), DEMAND, folder)  # type: ignore[arg-type]
    [done] = said
    assert isinstance(done, Done)
    assert isinstance(done.value, DistributedError)
    return done.value


def test_a_place_that_cannot_be_written_is_named_before_the_run(ray, tmp_path):
    need_ray()  # its pickle
    file = tmp_path / "file"
    file.touch()
    found = said_of(file / "home")  # a file has no room for the one that is looked for
    assert found.where == str(file)
    assert "nothing can be written there" in found.what
    assert "RLFT_HOME" in found.fix


def test_whatever_ray_raises_is_a_sentence(ray, monkeypatch, tmp_path):
    need_ray()  # its pickle

    def fail(*_: object) -> None:
        raise AttributeError("module 'ray._private.state' has no attribute 'available_resources_per_node'\nmore")

    monkeypatch.setattr(existing_cluster, "_ask_once", fail)
    found = said_of(tmp_path)
    assert found.what.endswith("AttributeError: module 'ray._private.state' has no attribute "
                               "'available_resources_per_node'")  # fmt: skip
    assert found.where == "distributed.address"
    assert "`ray status`" in found.fix
    assert list(tmp_path.iterdir()) == []


def test_where_trainers_meet_outlasts_the_round_and_not_the_cluster(ray, monkeypatch, tmp_path):
    monkeypatch.setattr(existing_cluster, "_ask_machines", lambda *_: ([], {}))
    monkeypatch.setattr(existing_cluster, "find_problem", lambda *_, **__: None)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    cluster = ExistingCluster(DEMAND, tmp_path)
    places = [cluster.meeting(), cluster.meeting()]
    assert places[0] != places[1]
    for each in places:
        assert not each.exists()
        assert each.parent.is_dir()
        assert each.is_relative_to(tmp_path)
        assert not each.is_relative_to(scratch)  # which the next round empties
    cluster.close()
    assert list(tmp_path.iterdir()) == [scratch]


class Needy(Exception):
    """Pickles, and cannot be made again from its one argument."""

    def __init__(self, place: str, number: int) -> None:
        super().__init__(f"{place} has {number}")


class Held(Exception):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("it holds a function")
        self.function = lambda: None


def test_an_error_arrives_as_it_was():
    ours = DamagedError("it is damaged", where="file", run="one", step="train_grpo_r001")
    found = Failed.by(ours).error()
    assert isinstance(found, DamagedError)
    assert (str(found), found.run) == (str(ours), "one")
    other = ValueError("no number")
    other.add_note("in a trainer")
    again = Failed.by(other).error()
    assert type(again) is ValueError
    assert (again.args, again.__notes__) == (("no number",), ["in a trainer"])


@pytest.mark.parametrize(
    ("error", "text"), [(Needy("t0", 3), "Needy: t0 has 3"), (Held(), "Held: it holds a function")]
)
def test_one_that_cannot_be_made_again_arrives_in_words(error, text):
    error.add_note("in a trainer")
    found = Failed.by(error).error()
    assert type(found) is RuntimeError
    assert str(found) == text
    assert found.__notes__ == ["in a trainer"]
