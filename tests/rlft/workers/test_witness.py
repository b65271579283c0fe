"""What ran when a process ended is known afterwards, and a process that its own code ends does not look finished."""

import asyncio
import errno
import os
import subprocess
import sys
import time

import pytest

from rlft.workers import witness
from rlft.workers.threads import in_thread
from rlft.workers.witness import Noted, note_exit, noted, read_witness, witnessed

PROGRAM = """
import asyncio, ctypes, os, sys
from pathlib import Path
from rlft.workers.threads import in_thread
from rlft.workers.witness import noted, witnessed

def end():
    {end}

async def other():
    with noted("tool look", "r0", "t0"):
        await asyncio.sleep(60)

async def main():
    beside = asyncio.create_task(other())
    with noted("setup", "r9", "t9"):
        await asyncio.sleep(0.05)
    with noted("compute_reward", "r1", "t1"):
        await in_thread(end)

with witnessed(Path(sys.argv[1]), {{"run_id": "a"}}, lambda call: print("said:", call, flush=True)):
    asyncio.run(main())
print("finished")
"""


def run(tmp_path, end):
    path = tmp_path / "a.calls"
    program = PROGRAM.format(end=end)
    ended = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False, timeout=60
    )
    return ended, path


def test_a_call_of_os_exit_ends_with_1_and_names_the_call(tmp_path):
    ended, path = run(tmp_path, "os._exit(0)")
    assert ended.returncode == 1
    exit_call = "os._exit(0) at <string>:8"
    assert ended.stdout == f"said: compute_reward ran for rollout r1 of task t1, which called {exit_call}\n"
    heading, calls = read_witness(path)
    assert heading == {"run_id": "a"}
    assert calls == [Noted("compute_reward", "r1", "t1", exit_call)]
    assert calls[0].setting == "reward.isolation"


@pytest.mark.parametrize("end", ["ctypes.string_at(0)", "ctypes.CDLL(None)._exit(0)"])
def test_after_a_crash_all_that_ran_is_named(tmp_path, end):
    ended, path = run(tmp_path, end)
    assert "finished" not in ended.stdout
    assert sorted(map(str, read_witness(path)[1])) == [
        "compute_reward ran for rollout r1 of task t1",
        "tool look ran for rollout r0 of task t0",
    ]


def test_a_forked_process_may_end_as_it_likes(tmp_path):
    end = "pid = os.fork()\n    if not pid: os._exit(7)\n    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    ended, path = run(tmp_path, end)
    assert ended.stdout == "7\nfinished\n"
    assert not path.exists()


def test_more_calls_than_there_is_room_for_are_left_out_and_long_names_cut(tmp_path):
    path = tmp_path / "a.calls"
    with witnessed(path, {}, print):

        async def call(number):
            with noted("tool " + "x" * 1000, f"r{number}", "t" * 1000):
                await asyncio.sleep(0.05)
                return len(read_witness(path)[1])

        async def all_of_them():
            return await asyncio.gather(*map(call, range(400)))

        assert max(asyncio.run(all_of_them())) == 255
        assert read_witness(path)[1] == []
    assert os._exit.__module__ == "posix"


def test_what_stands_in_for_os_exit_is_left_there_and_can_ask_for_the_call(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "_exit", print)
    path, said = tmp_path / "a.calls", []
    assert note_exit("os._exit(0) at a.py:1") is None
    with witnessed(path, {}, said.append):
        assert os._exit is print
        assert note_exit("os._exit(0) at a.py:1") is None
        with noted("tool " + "x" * 1000, "r1", "t1"):
            ending = note_exit("os._exit(0) at a.py:1")
            assert (ending.rollout_id, ending.exit_call) == ("r1", "os._exit(0) at a.py:1")
            [left] = read_witness(path)[1]
    assert (left.rollout_id, left.exit_call, said) == ("r1", "os._exit(0) at a.py:1", [])


def test_the_note_takes_its_room_at_once_so_that_a_full_disk_cannot_end_the_process_later(tmp_path):
    with witnessed(path := tmp_path / "a.calls", {}, print):
        assert path.stat().st_blocks * 512 >= path.stat().st_size == 256 * 512


def test_a_note_that_cannot_be_made_is_told_and_the_run_goes_on(tmp_path, monkeypatch, caplog):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with witnessed(path := tmp_path / "a.calls", {}, print), noted("setup", "r", "t"):
        assert not path.exists()
    with witnessed(tmp_path / "gone" / "a.calls", {}, print), noted("setup", "r", "t"):
        pass
    assert "it will not be known which call it was: [Errno 28] No space left on device" in caplog.text
    assert "No such file or directory" in caplog.text


def test_a_note_takes_microseconds(tmp_path):
    with witnessed(tmp_path / "a.calls", {}, print):
        started = time.perf_counter()
        for number in range(2000):
            with noted("compute_reward", f"train-0-{number}", "t"):
                pass
        seconds = time.perf_counter() - started
    assert seconds / 2000 < 200e-6  # 5 to 10 on an idle machine


def test_without_a_run_nothing_is_noted():
    async def call():
        with noted("setup", "r", "t"):
            return await in_thread(lambda: 3)

    assert asyncio.run(call()) == 3


def test_a_call_that_an_earlier_run_left_behind_is_not_taken_for_one_that_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "_exit", print)
    leftover = witness._now.set(Noted("compute_reward", "old", "t0"))
    try:
        with witnessed(tmp_path / "a.calls", {}, print):
            assert note_exit("os._exit(0) at a.py:1") is None
    finally:
        witness._now.reset(leftover)
