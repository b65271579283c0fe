"""The process that uses Ray as the run sees it, without Ray: one that is stopped or dies while it is sent a round."""

from __future__ import annotations

import threading
from typing import Any

import psutil
import pytest

from rlft.config import DistributedConfig
from rlft.distributed import director, director_process
from rlft.distributed.demand import Demand
from rlft.distributed.director_process import DirectorProcess
from rlft.errors import DistributedError
from tests.rlft.distributed import processes

ROUND: Any = b"x" * (32 << 20)  # far more than a socket holds


@pytest.fixture
def asked(monkeypatch):
    """A function that asks a process which does this; its limit is a second."""
    monkeypatch.setattr(director_process, "_SLACK", 0.0)
    monkeypatch.setattr(director_process, "_START_SECONDS", 0.0)
    made = DirectorProcess(Demand(DistributedConfig(engine="ray"), on_gpu=False))

    def ask(work, request=ROUND, seconds=1.0):
        monkeypatch.setattr(director, "direct", work)
        return made.ask(request, seconds, lambda _: None)

    yield ask
    made.close()


def left() -> list[psutil.Process]:
    found = psutil.Process().children(recursive=True)
    return [each for each in found if "spawn_main" in " ".join(each.cmdline()) and each.status() != "zombie"]


@pytest.mark.slow
@pytest.mark.parametrize("request_", [b"short", ROUND])
def test_a_process_that_is_stopped_is_found_within_the_limit_and_ended(asked, monkeypatch, request_):
    monkeypatch.setattr(director_process, "_END_SECONDS", 1.0)
    with pytest.raises(DistributedError, match="the process that uses Ray has not answered for 1 s") as caught:
        asked(processes.stops, request_)
    assert "`rlft resume`" in caught.value.fix
    assert left() == []
    assert [each for each in threading.enumerate() if each.name == "rlft-request"] == []


def test_a_process_that_dies_while_it_is_sent_a_round_is_said_to_have_died(asked):
    with pytest.raises(DistributedError, match=r"has died \(exit code 3\)"):
        asked(processes.dies, seconds=60.0)
    assert left() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "code", "what", "look"),
    [
        (None, -9, "was killed, as a system does that is short of memory", "this machine is short of memory"),
        (
            "10.0.0.7:6379",
            -9,
            "was killed, as a system does that is short of memory",
            "this machine is short of memory",
        ),
        (None, 1, "Ray's head on this machine, or the process", "this machine is short of memory"),
        ("10.0.0.7:6379", 1, "the head of Ray does not answer any more", "the machine of the head is up"),
    ],
)
def test_why_it_has_ended_is_told_by_its_code_and_by_where_the_head_is(monkeypatch, address, code, what, look):
    demand = Demand(DistributedConfig(engine="ray", address=address), on_gpu=False)
    monkeypatch.setattr(director, "direct", processes.killed if code < 0 else processes.exits)
    made = DirectorProcess(demand)
    with pytest.raises(DistributedError) as caught:
        made.ask(b"short", 60.0, lambda _: None)  # type: ignore[arg-type]
    assert what in caught.value.what
    assert caught.value.fix.startswith(f"look whether {look}")
    assert "`rlft resume`" in caught.value.fix


@pytest.mark.slow
def test_what_cannot_be_sent_is_said_as_it_is(asked):
    with pytest.raises(Exception, match="pickle"):
        asked(processes.dies, lambda: None, seconds=60.0)
