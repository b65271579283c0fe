"""Run the command line in this process, and kill a trainer with SIGKILL before the n-th round is given to them.

python -m tests.e2e.lost_trainer 2 run config.yaml
"""

import os
import signal
import sys
from typing import Any

from rlft.distributed.trainers import Trainers


def kill_before(count: int) -> None:
    """Have the second trainer die when the round of this number, from 1, is to be trained."""
    original, calls = Trainers.train, 0

    def train(self: Trainers, *given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            os.kill(self.pids[1], signal.SIGKILL)
        return original(self, *given)

    setattr(Trainers, "train", train)  # noqa: B010  # as a type checker would not have it


if __name__ == "__main__":
    from cli.__main__ import console_script

    number, *arguments = sys.argv[1:]
    kill_before(int(number))
    console_script(arguments)
