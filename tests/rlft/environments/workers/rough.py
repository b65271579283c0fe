"""A worker's handler whose methods treat their process roughly."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import time
from pathlib import Path

from rlft.environments.workers.child import MIB, memory_in_use


async def open_rough(payload):
    if "room_mib" in payload:
        most = memory_in_use()[0] + payload["room_mib"] * MIB
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    methods = (count, fork, start, silent, kill, wait, block)
    return {method.__name__: method for method in methods}


async def count(text):
    return len(text)


async def fork(file):
    if (pid := os.fork()) == 0:
        time.sleep(60)
    Path(file).write_text(str(pid))
    time.sleep(60)


async def start(file):
    Path(file).write_text(f"{os.getpid()} {subprocess.Popen(['sleep', '300']).pid}")
    time.sleep(300)


async def kill(_):
    os.kill(os.getpid(), signal.SIGKILL)


async def wait(seconds):
    await asyncio.sleep(seconds)
    return "waited"


async def block(_):
    time.sleep(60)


async def silent(_):
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # its pipes have the numbers that they have in its parent
    return 1
