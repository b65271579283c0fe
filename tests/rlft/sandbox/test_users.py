"""The walls and limits hold for whoever runs rlft: the tests of this folder, run by others than a mighty root."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = [pytest.mark.usefixtures("bubblewrap"), pytest.mark.slow]
PROJECT, HERE = Path(__file__).resolve().parents[3], Path(__file__).resolve().parent
# What an ordinary user may not be able to read lies somewhere else in a mount namespace of this test.
MOVED = """
set -e
mount -t tmpfs -o mode=755 none /mnt
mkdir /mnt/project /mnt/packages /mnt/python /mnt/own
chmod 1777 /mnt/own
mount --bind "$1" /mnt/project
mount --bind "$2" /mnt/packages
mount --bind "$3" /mnt/python
cd /mnt/project
python=/mnt/python/$4
shift 4
exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all \
  env -i PATH=/usr/bin:/bin HOME=/mnt/own TMPDIR=/mnt/own PYTHONPATH=/mnt/project:/mnt/packages \
  PYTHONDONTWRITEBYTECODE=1 CI="$CI" "$python" "$@"
"""
KEY_ATTACKS = (
    "hoard or refused or shared or init_ or namespace or setuid or ptrace or unix_socket or read_secret or "
    "fork_bomb or memory_by_many or daemon or limit_that_stopped or processes or tables"
)


def as_an_ordinary_user(*arguments):
    base = Path(sys.base_prefix).resolve()
    python = Path(getattr(sys, "_base_executable", sys.executable)).resolve().relative_to(base)
    places = [str(PROJECT), sysconfig.get_path("purelib"), str(base), str(python)]
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", MOVED, "sh", *places, *arguments],
        env={"CI": "", **os.environ}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def selected(tests, words):
    return ["-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-k", words, *tests]


def passed(result):
    last = result.stdout.strip().splitlines()[-1] if result.stdout.strip() else ""
    return int(last.split(" passed")[0].split()[-1]) if result.returncode == 0 and " passed" in last else 0


@pytest.mark.skipif(os.geteuid() != 0, reason="these tests are run by an ordinary user already")
def test_the_sandbox_holds_for_an_ordinary_user():
    able = as_an_ordinary_user("-c", "import os; print(os.geteuid())")
    if able.returncode != 0:
        assert os.environ.get("CI") != "true", able.stderr
        pytest.skip(f"root may not mount here: {able.stderr}")
    assert able.stdout == "65534\n"
    files = [f"tests/rlft/sandbox/{name}.py" for name in ("test_attacks", "test_memory", "test_sandbox")]
    result = as_an_ordinary_user(*selected(files, KEY_ATTACKS))
    assert passed(result) >= 40, result.stdout[-3000:] + result.stderr[-1000:]


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has no such right to lose")
def test_the_sandbox_holds_for_root_without_the_right_to_look_into_processes():
    # As in a container: /proc/PID/root of another user's process, which the program is, cannot be read.
    command = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-all", sys.executable]
    words = "limit_that_stopped or hoard_takes or tables"
    result = subprocess.run(
        [*command, *selected([str(HERE / "test_attacks.py"), str(HERE / "test_memory.py")], words)],
        capture_output=True, text=True, timeout=300, cwd=PROJECT,
    )  # fmt: skip
    assert passed(result) >= 14, result.stdout[-3000:] + result.stderr[-1000:]
