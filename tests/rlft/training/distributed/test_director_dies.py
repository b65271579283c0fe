"""The process that uses Ray as the run sees it, without Ray: one that dies while it is sent a round, or is killed."""

from __future__ import annotations

from typing import Any

import psutil
import pytest

from rlft.config import DistributedConfig
from rlft.errors import DistributedError
from rlft.training.distributed import director
from rlft.training.distributed.director import Trainers
from tests.rlft.training.distributed import processes

ROUND: Any = b"x" * (32 << 20)  # far more than a socket holds


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """A function that asks a process which does this."""
    made = Trainers(DistributedConfig(engine="ray", trainers=2), False, tmp_path)

    def ask(work, request=ROUND):
        monkeypatch.setattr(director, "direct", work)
        return made.train(request)

    yield ask
    made.close()


def left() -> list[psutil.Process]:
    found = psutil.Process().children(recursive=True)
    return [each for each in found if "spawn_main" in " ".join(each.cmdline()) and each.status() != "zombie"]


@pytest.mark.parametrize(("work", "code"), [(processes.dies, 3), (processes.killed, -9), (processes.exits, 1)])
def test_a_process_that_dies_is_said_to_have_died_and_the_run_can_be_resumed(asked, work, code):
    with pytest.raises(DistributedError) as caught:
        asked(work)
    assert f"exit code {code}" in caught.value.what
    assert "`rlft resume`" in caught.value.fix
    assert left() == []


@pytest.mark.slow
def test_what_cannot_be_sent_is_said_as_it_is(asked):
    with pytest.raises(Exception, match="pickle"):
        asked(processes.dies, lambda: None)
