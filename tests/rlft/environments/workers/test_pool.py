"""Whatever a worker process does to itself, its calls end within their limits, and nothing of it is left."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from rlft.environments.workers import pool as pools
from rlft.environments.workers.pool import Pool, Program, WorkerEnded
from rlft.environments.workers.threads import Late


def ask(method, argument, *, seconds, **payload):
    async def call():
        pool = Pool(Program("tests.rlft.environments.workers.rough:open_rough", payload, Path.cwd()), 1)
        return await pool.call(method, lambda anew: argument, seconds=seconds)

    return asyncio.run(asyncio.wait_for(call(), 60))


def is_running(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_call_that_its_process_has_no_memory_to_take_ends_it():
    assert ask("count", "x" * 1000, seconds=20, room_mib=64) == 1000
    with pytest.raises(WorkerEnded, match=r"ended with exit code 70$"):
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


def test_a_worker_ends_when_its_parent_is_killed(tmp_path):
    program = f"""if True:
        import tests.rlft.environments.workers.test_pool as it
        it.ask("start", {str(tmp_path / "pids")!r}, seconds=60)
    """
    parent = subprocess.Popen([sys.executable, "-c", program])
    until = time.perf_counter() + 60
    while not (tmp_path / "pids").exists() and time.perf_counter() < until:
        time.sleep(0.05)
    worker, started = map(int, (tmp_path / "pids").read_text().split())
    parent.kill()
    parent.wait()
    assert ends(worker)
    os.kill(started, 9)


def test_a_worker_that_closes_its_pipes_ends_with_its_call():
    with pytest.raises(WorkerEnded):
        ask("silent", None, seconds=20)


def test_a_kill_is_told():
    with pytest.raises(WorkerEnded, match=r"^was ended by SIGKILL, as the system does when memory runs out$"):
        ask("kill", None, seconds=20)


def test_a_call_whose_process_ends_before_it_begins_is_made_in_another_one(monkeypatch):
    start, ended = pools._Process.start, []

    async def start_and_end(worker):
        await start(worker)
        if not ended:  # the process ends between being chosen and being called
            ended.append(worker)
            worker.kill("was killed by the test")

    monkeypatch.setattr(pools._Process, "start", start_and_end)
    assert ask("count", "four", seconds=20) == 4
    assert len(ended) == 1


@pytest.mark.slow
def test_a_process_that_blocks_is_killed_once_it_does_not_answer_and_one_that_waits_is_not():
    async def calls():
        pool = Pool(Program("tests.rlft.environments.workers.rough:open_rough", {}, Path.cwd()), 1)
        assert await pool.call("wait", lambda anew: 1.5, quiet_seconds=0.5) == "waited"
        with pytest.raises(WorkerEnded, match=r"^was killed, as it had run nothing for 0.5 s$"):
            await pool.call("block", lambda anew: None, quiet_seconds=0.5)

    asyncio.run(asyncio.wait_for(calls(), 60))


@pytest.mark.slow
def test_each_of_many_calls_gets_its_own_result_whatever_the_others_do_to_their_processes():
    def outcome(result):
        return type(result) if isinstance(result, Exception) else result

    async def calls():
        pool = Pool(Program("tests.rlft.environments.workers.rough:open_rough", {}, Path.cwd()), 3)

        def ask_one(number):
            key = f"of {number % 5}" if number % 2 else None
            if number % 10 == 4:
                return pool.call("kill", lambda anew: None, key=key, seconds=20)
            if number % 20 == 7:
                return pool.call("wait", lambda anew: 30, key=key, seconds=1)
            return pool.call("count", lambda anew: "x" * number, key=key, seconds=20)

        found = await asyncio.gather(*map(ask_one, range(60)), return_exceptions=True)
        return [outcome(each) for each in found]

    wanted = [WorkerEnded if n % 10 == 4 else Late if n % 20 == 7 else n for n in range(60)]
    assert asyncio.run(asyncio.wait_for(calls(), 120)) == wanted
