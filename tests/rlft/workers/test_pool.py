"""Whatever a worker process does to itself, its calls end within their limits, and nothing of it is left."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from rlft.workers import pool as pools
from rlft.workers.bounded import Late
from rlft.workers.pool import Pool
from rlft.workers.process import Call, Program, WorkerEnded


def ask(method, argument, *, seconds, **payload):
    async def call():
        pool = Pool(Program("tests.rlft.workers.rough:open_rough", payload, Path.cwd()), 1)
        return await pool.call(method, lambda anew: argument, seconds=seconds)

    return asyncio.run(asyncio.wait_for(call(), 60))


def is_running(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_call_that_its_process_has_no_memory_to_take_ends_it():
    assert ask("count", "x" * 1000, seconds=20, room_mib=64) == 1000
    with pytest.raises(WorkerEnded, match=r"^ended, as it could not take a call or answer one"):
        ask("count", "x" * (80 << 20), seconds=20, room_mib=64)


def test_what_a_worker_has_forked_ends_with_it(tmp_path):
    with pytest.raises(Late):
        ask("fork", str(tmp_path / "pid"), seconds=1)
    pid, gone = int((tmp_path / "pid").read_text()), time.perf_counter() + 10
    while is_running(pid) and time.perf_counter() < gone:
        time.sleep(0.05)
    assert not is_running(pid)


def test_a_message_that_would_take_all_memory_ends_the_worker_that_sends_it():
    said = r"was killed, as it sent what cannot be read \(a message of 3072 MiB is too long\)"
    with pytest.raises(WorkerEnded, match=said):
        ask("flood", None, seconds=20)


@pytest.mark.parametrize(("answers", "least"), [(True, 0.1), (False, 0.3)])
def test_a_process_that_does_not_begin_a_call_is_ended(monkeypatch, answers, least):
    """Two other calls of at most 0.1 s may hold it up, so a process that does not answer has three times as long."""
    monkeypatch.setattr(pools, "_LOST_SECONDS", 0.02)
    killed: list[str] = []

    async def answered(seconds):
        await asyncio.sleep(seconds * (not answers))
        return answers

    async def wait():
        worker: Any = SimpleNamespace(calls={1: 1, 2: 2}, answers=answered, kill=killed.append)
        await pools._until_begun(worker, Call(1, asyncio.get_running_loop().create_future()), 0.1)

    started = time.perf_counter()
    asyncio.run(wait())
    assert killed == ["was killed, as it did not begin a call"]
    assert least < time.perf_counter() - started < least + 2
