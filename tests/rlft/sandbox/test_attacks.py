"""What no program may achieve: a reward without the work, a way out, harm to the machine it runs on."""

import asyncio
import contextlib
import hashlib
import os
import platform
import socket
import time
import uuid
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from rlft.environments.code_running import Checks, run_code
from rlft.sandbox.base import MIB, Limits, run_program
from rlft.sandbox.bubblewrap import Bubblewrap
from rlft.sandbox.create import NoSandbox, create_sandbox
from tests.rlft.sandbox.attacks import BOMBS, ESCAPES, FORGERIES, WORKS_WITHOUT_A_SANDBOX

TESTS = Checks(asserts=("assert f(3) == 6", "assert f(10) == 20", "assert f(-7) == -14"))
LIMITS = Limits(seconds=2.5, cpu_seconds=1, memory_mib=256, processes=10, output_bytes=MIB, file_bytes=4 * MIB)
NUMBERS = {"x86_64": {"clone": 56, "keyctl": 250, "bpf": 321}, "aarch64": {"clone": 220, "keyctl": 219, "bpf": 280}}
PROJECT = Path(__file__).resolve().parents[3]


MARK = f"mark={uuid.uuid4()}"  # in the command line of all that is started here, and of what that starts by forking


class Marked(Bubblewrap):
    @property
    def python(self):
        return (*super().python, "-X", MARK)


@pytest.fixture(scope="module")
def sandbox(bubblewrap):
    create_sandbox("bubblewrap")
    return Marked()


def left_behind():
    """The processes with our mark, once those that are dying have had a second to be gone."""
    for _ in range(20):
        found = []
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                found += [place] if MARK.encode() in place.read_bytes() else []
        if not found:
            break
        time.sleep(0.05)
    return found


def test_what_is_left_behind_would_be_seen(sandbox):
    async def look():
        async with sandbox.open([*sandbox.python, "-c", "print(1, flush=True); input()"]) as process:
            await process.read_line()
            return left_behind()

    assert len(asyncio.run(look())) >= 2  # bwrap and the program
    assert left_behind() == []


def attack(sandbox, code, limits=LIMITS):
    return asyncio.run(run_code(code, TESTS, sandbox, limits))


def test_the_honest_answer_passes_under_these_limits(sandbox):
    verdict = attack(sandbox, "def f(x): return 2 * x")
    assert (verdict.passed, verdict.loaded, verdict.stopped) == ((True, True, True), True, None)


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_earns_nothing(sandbox, name):
    verdict = attack(sandbox, FORGERIES[name])
    assert verdict.passed == (False, False, False)


class Host:
    """Things of the host that an escape could reach: a secret, a file, sockets that listen."""

    def __init__(self, folder):
        self.folder, self.secret = folder, "correct horse battery staple"
        (folder / "secret").write_text(self.secret)
        self.sockets = [
            socket.create_server(("127.0.0.1", 0)),
            socket.socket(socket.AF_UNIX),
            socket.socket(socket.AF_UNIX),
        ]
        self.port = self.sockets[0].getsockname()[1]
        for place, listener in zip((str(folder / "socket"), f"\0rlft-test-{self.port}"), self.sockets[1:], strict=True):
            listener.bind(place)
            listener.listen()

    def fill(self, code):
        numbers = NUMBERS.get(platform.machine(), NUMBERS["x86_64"])
        return code.format(
            port=self.port, path=str(self.folder), secret=self.secret, project=str(PROJECT), pid=os.getpid(), **numbers
        )


@pytest.fixture
def host(tmp_path, monkeypatch):
    host = Host(tmp_path)
    monkeypatch.setenv("RLFT_TEST_SECRET", host.secret)
    yield host
    for listener in host.sockets:
        listener.close()


@pytest.mark.parametrize("name", ESCAPES)
def test_an_escape_fails(sandbox, host, name):
    before = sorted(host.folder.iterdir())
    verdict = attack(sandbox, host.fill(ESCAPES[name]))
    assert verdict.passed == (False, False, False)
    assert sorted(host.folder.iterdir()) == before


@pytest.mark.parametrize("name", WORKS_WITHOUT_A_SANDBOX)
def test_the_same_escape_works_without_a_sandbox(host, name):
    # So it is the sandbox that stops it, and not a mistake in the attack.
    verdict = attack(NoSandbox(), host.fill(ESCAPES[name]))
    assert verdict.passed == (True, True, True)


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.slow
def test_a_bomb_ends_in_time_and_leaves_nothing_behind(sandbox, name):
    started = time.perf_counter()
    verdict = attack(sandbox, BOMBS[name])
    # The judge may take up to 5 s longer than the program; a busy machine adds to that.
    assert time.perf_counter() - started < LIMITS.seconds + 12
    assert verdict.passed == (False, False, False)
    assert left_behind() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "stopped"),
    [
        ("import time; time.sleep(60)", "time"),
        ("while True: pass", "cpu"),
        ("import sys\nwhile True: sys.stdout.write('x' * 9999)", "output"),
        ("import sys\nwhile True: sys.stderr.write('x' * 9999)", "output"),
        ("import os, time\nfor _ in range(3): os.fork()\na = bytearray(b'x') * (100 << 20)\ntime.sleep(9)", "memory"),
        ("n = 0\nwhile True:\n  n += 1\n  open(f'/scratch/{n}', 'w').close()", "files"),
    ],
)  # fmt: skip
def test_the_limit_that_stopped_a_program_is_named(sandbox, code, stopped):
    limits = replace(LIMITS, seconds=1 if stopped == "time" else 20)  # processor time is slow on a busy machine
    result = asyncio.run(run_program(sandbox, [*sandbox.python, "-c", code], limits=limits))
    assert result.stopped == stopped
    assert len(result.stdout) <= LIMITS.output_bytes
    assert len(result.stderr) <= LIMITS.output_bytes


def host_mib(name):
    """A figure of /proc/meminfo in MiB."""
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) / 1024


def held_mib():
    """What this process holds, and all files in memory; what other tests take meanwhile is theirs."""
    return psutil.Process().memory_info().rss / 2**20 + host_mib("Shmem")


def fixed_work():
    """Processor seconds of a small computation; the fastest of five."""

    def once():
        started = time.thread_time()
        hashlib.pbkdf2_hmac("sha256", b"a", b"b", 20_000)
        return time.thread_time() - started

    return min(once() for _ in range(5))


@pytest.mark.slow
def test_eight_bombs_at_a_time_do_the_host_no_harm(sandbox, tmp_path):
    worst = (
        "fork_bomb",
        "thread_bomb",
        "memory_mmap",
        "memory_by_many",
        "stderr_endless",
        "many_files",
        "daemon",
        "loop",
    )
    (tmp_path / "kept").write_text("as it was")
    memory, held, work = host_mib("MemAvailable"), held_mib(), fixed_work()
    least = memory
    files, latest, longest_pause = len(os.listdir("/proc/self/fd")), time.perf_counter(), 0.0

    async def everything():
        nonlocal least, latest, longest_pause
        bombs = asyncio.gather(*(run_code(BOMBS[name], TESTS, sandbox, LIMITS) for name in worst))
        while not bombs.done():
            await asyncio.sleep(0.05)
            least = min(least, host_mib("MemAvailable"))
            longest_pause, latest = max(longest_pause, time.perf_counter() - latest), time.perf_counter()
        return await bombs

    verdicts = asyncio.run(everything())
    assert not any(passed for verdict in verdicts for passed in verdict.passed)
    assert left_behind() == []
    assert len(os.listdir("/proc/self/fd")) <= files
    assert (tmp_path / "kept").read_text() == "as it was"
    # Eight programs of 256 MiB, of which four take what they can get, and what 50 ms of not looking let pass.
    assert memory - least < 3000
    assert held_mib() - held < 100
    assert longest_pause < 3
    assert fixed_work() < 3 * work
