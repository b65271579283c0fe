"""What stands in for the process that uses Ray; with few imports, since it is started anew."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection
from typing import Any

import psutil


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


def leaves(link: Connection, *_: Any) -> None:
    """Say which program and which folder of Ray's it has, and die without ending them."""
    from rlft.training.distributed.cluster import make_folder
    from rlft.training.distributed.director import Done

    os.setsid()
    link.recv()
    link.send(Done((subprocess.Popen(["sleep", "600"]).pid, make_folder())))
    link.recv()
    os._exit(3)


def echoes(link: Connection, *_: Any) -> None:
    """Send back what comes, as the answer."""
    from rlft.training.distributed.director import Done

    try:
        while True:
            link.send(Done(link.recv()))
    except EOFError:
        return


def trainer_processes(among: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those of some processes in which Ray has a trainer."""
    alive = (each for each in among if each.status() != "zombie")
    return [each for each in alive if "ray::TrainerActor" in " ".join(each.cmdline())]
