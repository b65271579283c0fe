"""A sandbox's control group: where it is made, what is in it, what the kernel's record says, and that it goes away.

Most of it is shown on a tree of plain files. What the kernel does is shown where it has its memory controller in cgroup
v2 and lets this process use it.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlft.errors import SandboxError
from rlft.sandbox import bubblewrap as bubblewrap_module
from rlft.sandbox import cgroup
from rlft.sandbox.base import MIB, Limits, Stopped, run_program
from rlft.sandbox.bubblewrap import Bubblewrap
from rlft.sandbox.cgroup import Group, find_parent, own_group
from rlft.sandbox.process import start
from tests.rlft.sandbox.hoards import HOARDS

LIMITS = Limits(seconds=60, cpu_seconds=30, memory_mib=128, processes=8, file_bytes=4 * MIB)
KERNEL_FILES = ("cgroup.procs", "cgroup.kill", "memory.max", "memory.swap.max", "memory.oom.group", "pids.max")
OOM = "low 0\nhigh 0\nmax 55\noom {oom}\noom_kill {killed}\noom_group_kill 1\n"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A folder whose new folders have the kernel's files in them, and can be removed with these."""
    make = Path.mkdir

    def mkdir(path, *given, **options):
        make(path, *given, **options)
        for name in KERNEL_FILES:
            (path / name).write_text("")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)
    return tmp_path


@pytest.fixture
def real():
    """The group below which sandboxes get theirs. Not a matter of packages, so it may be missing in CI too."""
    parent = find_parent()
    if parent is None:
        pytest.skip("the kernel gives this process no cgroup v2 with the memory controller beside its own group")
    return parent


def groups(parent):
    return sorted(path.name for path in parent.glob("rlft-sandbox-*"))


@pytest.mark.parametrize(
    ("own", "root", "files", "expected"),
    [
        ("/user/shell", "/", {}, "user"),  # beside its own
        ("/user/shell", "/user", {}, "."),  # the mount shows what is below /user
        ("/user/shell", "/", {"user/shell/memory.max": "max\n"}, "user"),
        ("/user/shell", "/", {"user/shell/memory.max": "1073741824\n"}, None),  # beside it the limit would not hold
        ("/user/shell", "/other", {}, None),  # the mount does not show it
        ("/", "/", {}, "."),  # the first of the machine
        ("/", "/", {"cgroup.type": "domain\n"}, None),  # the first of a container, which only looks like it
    ],
)
def test_the_group_is_made_beside_our_own_or_below_the_first(tmp_path, own, root, files, expected):
    mount, proc = tmp_path / "mount", tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text(f"9:name=systemd:/else\n0::{own}\n")
    old = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"
    (proc / "mountinfo").write_text(f"{old}\n41 31 0:38 {root} {mount} rw - cgroup2 cgroup2 rw\n")
    for name, text in files.items():
        (mount / name).parent.mkdir(parents=True, exist_ok=True)
        (mount / name).write_text(text)
    assert cgroup._candidate(proc) == (None if expected is None else mount / expected)
    assert find_parent(proc) is None  # there is no such group, or it has no controllers: on as without


def test_without_cgroup_v2_there_is_none(tmp_path):
    assert find_parent(tmp_path) is None
    (tmp_path / "cgroup").write_text("4:memory:/shell\n1:cpu:/\n")
    assert find_parent(tmp_path) is None


@pytest.mark.parametrize(
    ("given", "written"), [("cpu memory pids\n", None), ("cpu memory\n", "+pids"), ("pids", "+memory")]
)
def test_controllers_are_enabled_where_they_are_not(tmp_path, given, written):
    (tmp_path / "cgroup.subtree_control").write_text(given)
    cgroup._enable(tmp_path)
    assert (tmp_path / "cgroup.subtree_control").read_text() == (written or given)


def test_a_group_has_the_limits_and_no_swap(tree):
    path = cgroup._make(tree, LIMITS)
    # 128 MiB, 4 MiB of files and 32 MiB for the kernel; 8 processes and 4 of bwrap's
    values = {"memory.max": str(164 * MIB), "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "12"}
    assert {name: (path / name).read_text() for name in values} == values


def test_a_group_does_without_the_files_that_a_machine_lacks(tmp_path):
    path = cgroup._make(tmp_path, LIMITS)
    assert [each.name for each in path.iterdir()] == ["memory.max"]


@pytest.mark.parametrize(
    ("record", "fate"),
    [
        (OOM.format(oom=1, killed=3), "memory"),
        (OOM.format(oom=0, killed=3), None),  # the machine or a group above ran out
        (OOM.format(oom=2, killed=0), None),  # an allocation failed, and the program was told
        (None, None),
    ],
)
def test_the_record_tells_the_groups_own_limit_from_others(tmp_path, record, fate):
    if record is not None:
        (tmp_path / "memory.events").write_text(record)
    assert Group(tmp_path).fate() == fate


def test_without_a_path_a_group_is_none():
    async def look():
        async with own_group(None, LIMITS) as group:
            return group.launcher, group.fate()

    assert asyncio.run(look()) == ([], None)


def test_only_groups_of_processes_that_are_no_more_are_removed(tree):
    dead = subprocess.Popen(["true"])
    dead.wait()
    alive, started, here = os.getpid(), cgroup._started(os.getpid()), cgroup._prefix()
    kept = [f"{here}{alive}-{started}-0a", f"rlft-sandbox-1-{dead.pid}-1-0b", f"{here}other", "shell"]
    for name in (*kept, f"{here}{dead.pid}-1-0c", f"{here}{alive}-1-0d"):
        (tree / name).mkdir()
    cgroup._remove_left_behind(tree)
    assert sorted(path.name for path in tree.iterdir()) == sorted(kept)


def test_a_fate_outlives_the_record_and_is_not_overwritten():
    records: Iterator[Stopped] = iter(("memory",))

    async def look():
        nothing = {"environment": {}, "limits": LIMITS, "watch": lambda pid: None, "kill": lambda pid: None}
        async with start(["/bin/true"], **nothing, fate=lambda: next(records, None)) as process:
            await process.result()
        return process.stopped, (await process.result()).stopped

    assert asyncio.run(look()) == ("memory", "memory")


@pytest.mark.usefixtures("bubblewrap")
def test_a_sandbox_runs_in_its_group_and_the_group_goes_with_it(tree):
    sandbox = Bubblewrap()
    sandbox._groups = tree

    async def look():
        async with sandbox.open([*sandbox.python, "-c", "print(1, flush=True); input()"], limits=LIMITS) as process:
            await process.read_line()
            (group,) = tree.iterdir()
            entered = (group / "cgroup.procs").read_text()
            before = process.stopped
            (group / "memory.events").write_text(OOM.format(oom=1, killed=3))
        return int(entered) == process._process.pid, before, process.stopped, list(tree.iterdir())

    assert asyncio.run(look()) == (True, None, "memory", [])
    assert sandbox.description.startswith("bubblewrap with cgroup, Python")
    sandbox._groups = None
    assert sandbox.description.startswith("bubblewrap without cgroup, Python")


@pytest.mark.usefixtures("bubblewrap")
def test_a_group_that_cannot_be_made_or_entered_is_an_error_of_the_sandbox(tree, monkeypatch):
    sandbox, before = Bubblewrap(), len(os.listdir("/proc/self/fd"))
    sandbox._groups = tree / "removed"
    with pytest.raises(SandboxError, match="no control group can be made"):
        asyncio.run(run_program(sandbox, ["true"]))
    sandbox._groups = tree
    monkeypatch.setattr(cgroup, "_ENTER", 'echo $$ > /nowhere/cgroup.procs && exec "$@"')
    with pytest.raises(SandboxError, match="/nowhere"):
        asyncio.run(run_program(sandbox, ["true"]))
    assert (list(tree.iterdir()), len(os.listdir("/proc/self/fd"))) == ([], before)


def unwatched(sandbox, code, monkeypatch):
    """The result of a program that the kernel alone looks after."""
    monkeypatch.setattr(bubblewrap_module, "exceeded", lambda pid, limits, work: None)
    return asyncio.run(run_program(sandbox, [*sandbox.python, "-c", code], limits=LIMITS))


@pytest.mark.usefixtures("bubblewrap")
def test_an_honest_program_may_use_all_it_has(real):
    sandbox = Bubblewrap()
    code = f"open('a', 'wb').write(bytes({LIMITS.file_bytes - 8192}))\nprint(len(bytearray(b'x') * (100 << 20)))"
    result = asyncio.run(run_program(sandbox, [*sandbox.python, "-c", code], limits=LIMITS))
    assert (result.stdout, result.stderr, result.exit_code, result.stopped) == (b"104857600\n", b"", 0, None)
    assert groups(real) == []


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize(
    "code",
    [
        "import os, time\nfor _ in range(2): os.fork()\na = bytearray(b'x') * (90 << 20)\ntime.sleep(20)",
        HOARDS["page_tables"],
    ],
    ids=["touched_by_many", "page_tables"],
)
def test_the_kernel_ends_what_no_watch_has_seen(real, code, monkeypatch):
    result = unwatched(Bubblewrap(), code, monkeypatch)
    assert (result.stopped, result.exit_code, groups(real)) == ("memory", 137, [])


@pytest.mark.usefixtures("bubblewrap")
def test_the_group_of_a_killed_run_is_removed_by_the_next(real):
    code = (
        "import asyncio, os, signal\nfrom rlft.sandbox.bubblewrap import Bubblewrap\nbox = Bubblewrap()\n"
        "async def run():\n async with box.open([*box.python, '-c', 'print(1, flush=True); input()']) as process:\n"
        "  await process.read_line()\n  os.kill(os.getpid(), signal.SIGKILL)\nasyncio.run(run())"
    )
    project = str(Path(__file__).resolve().parents[3])
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([project, *sys.path])}
    killed = subprocess.run([sys.executable, "-c", code], env=variables, timeout=120)
    assert (killed.returncode, len(groups(real))) == (-9, 1)
    for _ in range(3):  # the first may find its processes dying
        assert find_parent() == real
    assert groups(real) == []
