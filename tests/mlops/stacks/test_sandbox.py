"""The sandbox of a ZenML stack, with ZenML's own local one, which has no walls: what is said to it and comes back."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from types import SimpleNamespace
from uuid import uuid4

import psutil
import pytest
from zenml.enums import StackComponentType
from zenml.sandboxes import LOCAL_SANDBOX_FLAVOR, LocalSandbox, LocalSandboxConfig

from mlops.runtime.environment import open_environment
from mlops.stacks import sandbox as module
from mlops.stacks.sandbox import StackSandbox
from rlft.config import EnvironmentConfig
from rlft.environments.code.running import Checks, run_code
from rlft.errors import EnvironmentSetupError, SandboxError
from rlft.sandbox.base import Limits, run_program

LIMITS = Limits(seconds=20, cpu_seconds=2, memory_mib=512, output_bytes=200_000)


def make_component(**settings):
    now = datetime.now(UTC)
    return LocalSandbox(
        name="here",
        id=uuid4(),
        config=LocalSandboxConfig(**settings),
        flavor=LOCAL_SANDBOX_FLAVOR,
        type=StackComponentType.SANDBOX,
        user=None,
        created=now,
        updated=now,
    )


@pytest.fixture
def sandbox():
    return StackSandbox(make_component())


def run(sandbox, code, stdin=b"", limits=LIMITS, files=None):
    return asyncio.run(run_program(sandbox, [*sandbox.python, "-c", code], files=files, stdin=stdin, limits=limits))


def test_a_program_reads_and_writes_bytes_as_they_are(sandbox):
    code = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1]); sys.stderr.write('e'); sys.exit(3)"
    result = run(sandbox, code, stdin=bytes(range(256)))
    assert result.stdout == bytes(range(256))[::-1]
    assert (result.stderr, result.exit_code, result.stopped) == (b"e", 3, None)


def test_its_files_are_there(sandbox):
    result = run(sandbox, "import a.b; print(a.b.C)", files={"a/__init__.py": "", "a/b.py": "C = 'found'"})
    assert result.stdout == b"found\n"


def test_it_can_be_spoken_to_line_by_line(sandbox):
    async def talk():
        code = "for line in iter(input, 'end'): print(line.upper() * 70_000, flush=True)"
        async with sandbox.open([*sandbox.python, "-c", code], limits=LIMITS) as process:
            heard = []
            for word in (b"a\n", b"b\n"):
                await process.write(word)
                heard.append(await process.read_line())
            await process.write(b"end\n")
            return heard, await process.read_line(), (await process.result()).exit_code

    assert asyncio.run(talk()) == ([b"A" * 70_000 + b"\n", b"B" * 70_000 + b"\n"], None, 0)


@pytest.mark.parametrize(
    ("code", "stopped"),
    [("while True: pass", "cpu"), ("while True: print('x' * 1000)", "output"), ("import time; time.sleep(60)", "time")],
)
def test_limits_end_it(sandbox, code, stopped):
    limits = Limits(seconds=3 if stopped == "time" else 30, cpu_seconds=1, output_bytes=100_000)
    started = time.perf_counter()
    assert run(sandbox, code, limits=limits).stopped == stopped
    assert time.perf_counter() - started < 25


def test_a_program_out_of_time_is_gone_and_what_it_said_is_kept(sandbox):
    code = "import os\nprint(os.getpid(), flush=True)\nwhile True: pass"

    async def wait_for_the_limit():
        async with sandbox.open([*sandbox.python, "-c", code], limits=Limits(seconds=1, cpu_seconds=60)) as process:
            while process.stopped is None:
                await asyncio.sleep(0.01)
            return await process.result()

    result = asyncio.run(wait_for_the_limit())
    assert result.stopped == "time"
    psutil.wait_procs([psutil.Process(pid) for pid in [int(result.stdout)] if psutil.pid_exists(pid)], timeout=5)
    assert not psutil.pid_exists(int(result.stdout))


def test_memory_and_files_are_refused(sandbox):
    assert b"MemoryError" in run(sandbox, "x = bytearray(1 << 30)").stderr
    assert run(sandbox, "open('x', 'w').write('x' * 9999)").exit_code == 1


def test_a_program_that_kills_its_relay_is_gone(sandbox):
    result = run(sandbox, "import os, signal; os.kill(os.getppid(), signal.SIGKILL)")
    assert (result.exit_code, result.stopped) == (137, None)


def test_what_speaks_in_the_relays_place_harms_nobody(sandbox):
    forged = "x ?\\nx eA==\\no !\\nzz\\n"  # "eA==" is no number
    code = f"import os; f = open(f'/proc/{{os.getppid()}}/fd/1', 'w'); f.write('{forged}'); f.close(); print(1)"
    assert run(sandbox, code).stdout.endswith(b"1\n")


def test_code_is_judged_with_it(sandbox):
    tests = Checks(asserts=("assert f(2) == 4", "assert f(3) == 9", "assert f(0) == 1"))
    verdict = asyncio.run(run_code("def f(x):\n    return x * x\n", tests, sandbox, LIMITS))
    assert (verdict.passed, verdict.loaded, verdict.stopped) == ((True, True, False), True, None)


def test_a_component_that_fails_is_no_verdict(monkeypatch):
    def refuse(**settings):
        raise RuntimeError("no more containers")

    component = make_component()
    monkeypatch.setattr(component, "create_session", refuse)
    with pytest.raises(SandboxError, match="gives no session: no more containers"):
        run(StackSandbox(component), "1")


def test_what_cannot_be_started_is_no_verdict(sandbox):
    with pytest.raises(SandboxError, match=r"does not start a program: .*python3"):
        run(StackSandbox(make_component(sandbox_environment={"PATH": "/nowhere"})), "1")
    with pytest.raises(SandboxError, match=r"(?s)did not run a program: .*absent"):
        asyncio.run(run_program(sandbox, ["absent"], limits=LIMITS))


def test_a_sandbox_that_starts_nothing_is_no_program_out_of_time(sandbox, tmp_path, monkeypatch):
    (tmp_path / "relay.py").write_text("import time; time.sleep(60)")
    monkeypatch.setattr(module, "_RELAY", tmp_path / "relay.py")
    monkeypatch.setattr("mlops.stacks.process._START_SECONDS", 0.2)
    with pytest.raises(SandboxError, match=r"nothing within 0\.2 s"):
        run(sandbox, "1", limits=Limits(seconds=0.1))


def test_nothing_is_left_behind(sandbox, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run(sandbox, "import subprocess; subprocess.Popen(['sleep', '0'])")
    assert not list(tmp_path.iterdir())


def test_an_environment_gets_the_sandbox_of_the_stack(monkeypatch):
    stack = SimpleNamespace(name="ours", sandbox=make_component())
    monkeypatch.setattr(module, "Client", lambda: SimpleNamespace(active_stack=stack))
    settings = EnvironmentConfig(
        name="rlft.environments.code:MBPP", kwargs={"sandbox": "stack", "partial_credit": True}
    )
    environment = open_environment(settings)
    assert isinstance(environment.sandbox, StackSandbox)
    assert environment.data_fingerprint().startswith("ZenML sandbox local, ")
    stack.sandbox = None
    with pytest.raises(EnvironmentSetupError, match="the stack 'ours' has no sandbox"):
        open_environment(settings)
