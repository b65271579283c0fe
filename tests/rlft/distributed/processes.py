"""What stands in for the process that uses Ray; with few imports, since it is started anew."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from multiprocessing.connection import Connection
from typing import Any


def stops(link: Connection, *_: Any) -> None:
    """Be stopped before anything is taken."""
    os.kill(os.getpid(), signal.SIGSTOP)
    link.recv()


def dies(link: Connection, *_: Any) -> None:
    """Die while something is being sent."""
    time.sleep(1)
    os._exit(3)


def killed(link: Connection, *_: Any) -> None:
    """Be killed as by a system that has no memory."""
    link.recv()
    os.kill(os.getpid(), signal.SIGKILL)


def exits(link: Connection, *_: Any) -> None:
    """End as Ray ends a process that has lost its head."""
    link.recv()
    os._exit(1)


def answers_once(link: Connection, *_: Any) -> None:
    """Answer the first request, and be stopped."""
    from rlft.distributed.director import Done

    link.send(Done(link.recv()))
    os.kill(os.getpid(), signal.SIGSTOP)


def leaves(link: Connection, *_: Any) -> None:
    """Say which program and which folder of Ray's it has, and die without ending them."""
    from rlft.distributed.director import Done
    from rlft.distributed.local_cluster import make_folder

    os.setsid()
    link.recv()
    link.send(Done((subprocess.Popen(["sleep", "600"]).pid, make_folder())))
    link.recv()
    os._exit(3)


def echoes(link: Connection, *_: Any) -> None:
    """Send back what comes, as the answer."""
    from rlft.distributed.director import Done

    try:
        while True:
            link.send(Done(link.recv()))
    except EOFError:
        return
