"""Run the command line in this process, and kill a trainer with SIGKILL before the n-th round is given to them.

    python -m tests.e2e.lost_trainer 2 run config.yaml

With a process's number, as in `2:1234`, that one is killed in place of the second trainer. With `2:1234:head` it is
the head of Ray's cluster: the round waits until Ray has found that out, and has ended the process that directs.
"""

import multiprocessing
import os
import signal
import sys
from typing import Any

import psutil

from rlft.training.distributed.director import Trainers
from tests.rlft.training.distributed.processes import trainer_processes


def kill_before(count: int, pid: int | None, *, is_head: bool) -> None:
    """Have the second trainer, or another process, die when the round of this number, from 1, is to be trained."""
    original, calls = Trainers.train, 0

    def train(self: Trainers, *given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            there = psutil.Process().children(recursive=True)
            os.kill(pid or trainer_processes(there)[1].pid, signal.SIGKILL)
            for child in multiprocessing.active_children() if is_head else ():
                if child.name == "rlft-director":
                    child.join()
        return original(self, *given)

    setattr(Trainers, "train", train)  # noqa: B010  # as a type checker would not have it


if __name__ == "__main__":
    from cli.__main__ import console_script

    place, *arguments = sys.argv[1:]
    number, process, kind = (*place.split(":"), "", "")[:3]
    kill_before(int(number), int(process) if process else None, is_head=kind == "head")
    console_script(arguments)
