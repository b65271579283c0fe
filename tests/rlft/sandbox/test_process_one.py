"""As process 1 of a container rlft inherits what loses its parent; it leaves no zombies."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
# In a namespace of its own as process 1: runs programs that end in every way, and counts zombies after each.
CODE = """
import asyncio, os, sys
from pathlib import Path
from rlft.environments.code.running import Checks, run_code
from rlft.sandbox.base import Limits, run_program
from rlft.sandbox.create import create_sandbox

PROGRAMS = {
    "ended": "pass",
    "time": "import time; time.sleep(60)",
    "cpu": "while True: pass",
    "output": "while True: print('x' * 9999)",
    "memory": "import os, time\\nfor _ in range(3): os.fork()\\na = bytearray(b'x') * (60 << 20)\\ntime.sleep(60)",
    "bomb": "import os\\nwhile True:\\n  try: os.fork()\\n  except OSError: pass",
    "daemon": "import os, time\\nif os.fork() == 0:\\n  os.setsid()\\n  if os.fork() == 0: time.sleep(60)",
}
TESTS = Checks(asserts=("assert f(3) == 6",))

def zombies():
    states = [stat.read_text().rpartition(")")[2].split()[0] for stat in Path("/proc").glob("[0-9]*/stat")]
    return states.count("Z")

async def main():
    sandbox = create_sandbox("bubblewrap")
    for name, code in PROGRAMS.items():
        limits = Limits(seconds=1 if name == "time" else 20, cpu_seconds=1, memory_mib=128, processes=10)
        result = await run_program(sandbox, [*sandbox.python, "-c", code], limits=limits)
        print(name, result.stopped, zombies())
    verdict = await run_code("def f(x): return 2 * x", TESTS, sandbox, Limits())
    print("attempt", verdict.passed, zombies())

assert os.getpid() == 1
asyncio.run(main())
"""


def in_a_process_namespace(code):
    options = ["--pid", "--fork", "--mount-proc", *([] if os.geteuid() == 0 else ["--user", "--map-current-user"])]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), *sys.path])}
    command = ["unshare", *options, sys.executable, "-c", code]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
def test_process_one_leaves_no_zombies():
    if in_a_process_namespace("").returncode != 0:
        assert os.environ.get("CI") != "true"
        pytest.skip("needs the right to make a process namespace (unshare --pid)")
    result = in_a_process_namespace(CODE)
    assert result.returncode == 0, result.stderr
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line[-1] for line in lines] == ["0"] * 8, result.stdout
    # A fork bomb ends by whichever limit comes first.
    assert [line[1] for line in lines if line[0] not in ("bomb", "attempt")] == [
        "None", "time", "cpu", "output", "memory", "None",
    ]  # fmt: skip
    assert lines[-1][1] == "(True,)"
