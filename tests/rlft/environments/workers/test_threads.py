"""An environment keeps its event loop, and a loop in use is nobody else's."""

import asyncio
import threading
from contextlib import suppress

import pytest

from rlft.environments.contract.base import BaseEnv
from rlft.environments.workers.threads import LoopThread, give_loop_back, take_loop
from rlft.errors import RlftError


async def running_loop():
    return asyncio.get_running_loop()


def loop_of_thread(environment):
    with LoopThread(environment) as thread:
        return thread.wait(thread.start(running_loop()), 5.0, "test", 5.0)


def test_a_loop_in_use_is_nobody_elses_and_without_an_environment_it_is_closed():
    environment = BaseEnv()
    first, second = take_loop(environment), take_loop(environment)
    assert first is not second
    give_loop_back(environment, second)
    give_loop_back(environment, first)
    assert (first.is_closed(), second.is_closed()) == (True, False)
    assert take_loop(environment) is second
    second.close()
    assert loop_of_thread(None).is_closed()


def test_a_loop_that_hangs_is_left_behind():
    environment, released = BaseEnv(), threading.Event()

    async def hangs():
        released.wait(30)

    with LoopThread(environment) as thread:
        future = thread.start(hangs())
        with pytest.raises(RlftError, match="neither returned nor awaited"):
            thread.wait(future, 0.2, "test", 5.0)
        hanging = thread._loop
    assert loop_of_thread(environment) is not hanging
    released.set()
    thread._thread.join(5)
    assert hanging.is_closed()


def test_a_loop_with_code_that_cannot_be_cancelled_is_not_used_again(monkeypatch):
    monkeypatch.setattr("rlft.environments.workers.threads._ENDING_SECONDS", 0.1)
    environment, begun, turns = BaseEnv(), threading.Event(), []

    async def stays():
        while True:
            turns.append(1)
            begun.set()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    with LoopThread(environment) as thread:
        thread.start(stays())
        begun.wait(5)
        first = thread._loop
    assert loop_of_thread(environment) is not first
    assert len(turns) == 2  # it began, and went on when it was cancelled


def _raise(error):
    raise error


@pytest.mark.parametrize(
    "end",
    [
        lambda loop: loop.stop(),
        lambda loop: loop.call_soon(loop.stop),
        lambda loop: loop.call_soon(_raise, SystemExit()),
        lambda loop: loop.call_soon(_raise, KeyboardInterrupt()),
    ],
)
def test_code_that_ends_its_loop_ends_nothing_of_others(end):
    async def result():
        await asyncio.sleep(0.2)
        return 1

    async def ends():
        end(asyncio.get_running_loop())
        await asyncio.sleep(0.01)
        return 2

    with LoopThread(BaseEnv()) as thread:
        futures = [thread.start(result()), thread.start(ends()), thread.start(result())]
        assert [thread.wait(future, 5.0, "test", 5.0) for future in futures] == [1, 2, 1]
    assert not thread._thread.is_alive()
