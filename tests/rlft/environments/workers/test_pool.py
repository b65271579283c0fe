"""Whatever a worker process does to itself, its calls end within their limits, and nothing of it is left."""

import asyncio
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from rlft.environments.workers import pool as pools
from rlft.environments.workers import process
from rlft.environments.workers.bounded import Late
from rlft.environments.workers.pool import Pool
from rlft.environments.workers.process import Call, Program, WorkerEnded
from rlft.errors import EnvironmentSetupError


def ask(method, argument, *, seconds, **payload):
    async def call():
        pool = Pool(Program("tests.rlft.environments.workers.rough:open_rough", payload, Path.cwd()), 1)
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


def ends(pid):
    gone = time.perf_counter() + 20
    while is_running(pid) and time.perf_counter() < gone:
        time.sleep(0.05)
    return not is_running(pid)


def test_nothing_goes_on_when_the_parent_is_killed(tmp_path):
    program = f"""if True:
        import tests.rlft.environments.workers.test_pool as it
        it.ask("start", {str(tmp_path / "pids")!r}, seconds=60)
    """
    parent = subprocess.Popen([sys.executable, "-c", program])
    until = time.perf_counter() + 60
    while not (tmp_path / "pids").exists() and time.perf_counter() < until:
        time.sleep(0.05)
    worker, started = map(int, (tmp_path / "pids").read_text().split())
    group = [one.pid for one in psutil.process_iter() if _group_of(one.pid) == worker]
    assert {worker, started} < set(group)  # and what ends them
    parent.kill()
    parent.wait()
    assert all(ends(pid) for pid in group)


def _group_of(pid):
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


@pytest.mark.parametrize("text", ["[]", "5", "{}", '{"done": []}', '{"begun": {}}', '{"ready": 1}', '{"log": 1}'])
def test_what_no_worker_says_ends_the_worker_and_its_call(text):
    with pytest.raises(WorkerEnded, match=r"^was killed, as it sent what no worker says$") as caught:
        ask("say", text, seconds=20)
    assert caught.value.guilty


@pytest.mark.parametrize("text", ["", "not JSON", '{"done": 1'])
def test_what_is_no_message_ends_the_worker_and_its_call(text):
    with pytest.raises(WorkerEnded, match=r"^was killed, as it sent what cannot be read \(") as caught:
        ask("say", text, seconds=20)
    assert caught.value.guilty


def test_a_worker_that_closes_its_pipes_ends_with_its_call():
    with pytest.raises(WorkerEnded, match=r"^ended, as it could not take a call or answer one") as caught:
        ask("silent", None, seconds=20)
    assert caught.value.guilty


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((3, 4), "was killed by the system, as memory had run out, after using up to 7 MiB"),
        ((3, 3), "was killed by SIGKILL, which was not the kernel's for lack of memory, after using up to 7 MiB"),
        ((None, None), "was killed (SIGKILL, as the system does when memory runs out) after using up to 7 MiB"),
    ],
)
def test_a_kill_for_memory_is_told_from_another_one(monkeypatch, counts, said):
    begun: set[threading.Thread] = set()  # by thread: that of a worker of another test may ask meanwhile

    def killed_for_memory():
        first = threading.current_thread() not in begun
        begun.add(threading.current_thread())
        return counts[0] if first else counts[1]

    monkeypatch.setattr(process, "killed_for_memory", killed_for_memory)
    with pytest.raises(WorkerEnded) as caught:
        ask("kill", None, seconds=20)
    assert re.sub(r"\d+ MiB", "7 MiB", str(caught.value)) == said


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_calls_end_with_the_thread_that_watches_their_process(monkeypatch):
    def fails(*_):
        raise OSError("it cannot be waited for")

    monkeypatch.setattr(process.os, "waitid", fails)
    with pytest.raises(EnvironmentSetupError, match="it was lost, as the thread that watches it has failed"):
        ask("count", "x", seconds=20)


def test_a_message_that_would_take_all_memory_ends_the_worker_that_sends_it():
    said = r"was killed, as it sent what cannot be read \(a message of 3072 MiB is too long\)"
    with pytest.raises(WorkerEnded, match=said):
        ask("flood", None, seconds=20)


@pytest.mark.slow
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
