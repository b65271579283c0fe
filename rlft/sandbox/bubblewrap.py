"""A sandbox of Linux namespaces, made by bubblewrap (`bwrap`, github.com/containers/bubblewrap).

The program sees the programs and libraries of the system and a Python without its packages (`shown`), all read-only,
and a `/proc` of its own. It has no network, no home, no environment variables of the host, and a user without rights.
The kernel limits each process (`prlimit`). What all of them use together is watched from outside
(`rlft.sandbox.process`). Killing the first process of the namespace ends all others in it.

Some limits count by user. If rlft runs as root, a sandbox therefore gets a random user id that no user has; for any
other user it gets a user namespace, in which Linux counts separately since 5.14. `check` makes sure that the limits
hold here.

A filter of system calls (seccomp, classic BPF; see seccomp(2)) refuses those that would give a program new namespaces
(and with them file systems in memory that no limit bounds), sockets that no network namespace confines (vsock), memory
that is in no process's account (`_UNSEEN` and shared anonymous mappings), and the calls in which most holes of the
kernel were found.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import secrets
import struct
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from rlft.errors import EnvironmentSetupError, SandboxError
from rlft.sandbox.base import MIB, Limits, SandboxResult, run_program
from rlft.sandbox.process import LimitedProcess, bury, exceeded, find_program, limit_options, start

PROGRAM, WORK = "/program", "/scratch"
INSTALL = "install bubblewrap 0.8 or newer (Debian and Ubuntu: apt-get install bubblewrap)"
_FIRST_FREE_UID, _FREE_UIDS = 1 << 30, 1 << 29  # a range of user ids that no user has
_NOBODY = 65534
_PYTHON = f"bin/python{sys.version_info.major}.{sys.version_info.minor}"
# Run inside by `check`: starts processes until it may not, and looks around.
_CHECK = """
import json, os, resource
def started():
    children = []
    try:
        for _ in range(12):
            pid = os.fork()
            if not pid:
                os.read(0, 1)
                os._exit(0)
            children.append(pid)
    except OSError:
        pass
    return len(children)
interfaces = open("/proc/net/dev").read().split()
print(json.dumps({
    "processes": started(),
    "home": os.path.exists("/home"),
    "init": os.path.exists("/proc/1/mem"),
    "memory": resource.getrlimit(resource.RLIMIT_AS),
    "interfaces": sum(name.endswith(":") for name in interfaces),
}))
"""


class Bubblewrap:
    """A `Sandbox` made by bubblewrap. It adds about 10 ms to the start of a program."""

    def __init__(self) -> None:
        """Find the programs that it needs. Raises `EnvironmentSetupError` if one is missing."""
        self._bwrap, self._prlimit = find_program("bwrap", INSTALL), find_program("prlimit", "install util-linux")
        self._setpriv = find_program("setpriv", "install util-linux") if os.geteuid() == 0 else None
        self._filter = seccomp_filter()
        self._system = _system()

    @property
    def description(self) -> str:
        """The kind of sandbox and the version of its Python."""
        return f"bubblewrap, Python {sys.version.split()[0]}"

    @property
    def python(self) -> tuple[str, ...]:
        """The command that starts Python inside, without its site packages."""
        return (f"{_inside_prefix()}/{_PYTHON}", "-S", "-s", "-P", "-B")

    @asynccontextmanager
    async def open(
        self, argv: Sequence[str], *, files: Mapping[str, str] | None = None, limits: Limits | None = None
    ) -> AsyncIterator[LimitedProcess]:
        """Start a program; see `Sandbox`."""
        limits, contents = limits or Limits(), {path: text.encode() for path, text in (files or {}).items()}
        status_read, status_write = os.pipe()  # here bwrap says how the program ended, where the program cannot write
        os.set_blocking(status_read, False)
        descriptors = [status_write]
        try:
            options = ["--json-status-fd", str(status_write), *self._namespaces(limits)]
            for folder in _folders(contents):
                options += ["--perms", "0755", "--dir", f"{PROGRAM}/{folder}"]
            for path, content in contents.items():
                descriptors.append(_readable(content))
                options += ["--perms", "0444", "--ro-bind-data", str(descriptors[-1]), f"{PROGRAM}/{path}"]
            descriptors.append(_readable(self._filter))
            options += ["--remount-ro", "/", "--seccomp", str(descriptors[-1])]
            command = [self._bwrap, *options, "--", *self._launcher(limits), *argv]
            watch = partial(exceeded, limits=limits, work=WORK)
            async with start(command, environment={}, limits=limits, watch=watch, pass_fds=descriptors) as process:
                yield process
        finally:
            status = _read_status(status_read)
            os.close(status_read)
            if first := re.search(rb'"child-pid": *([0-9]+)', status):
                await bury(int(first[1]))
        _check_status(status, await process.result())

    async def check(self) -> None:
        """Run a program that looks around and starts processes. Raises `EnvironmentSetupError` if a wall is missing."""
        limits = Limits(seconds=20, processes=6)
        try:
            result = await run_program(self, [*self.python, "-c", _CHECK], limits=limits)
            seen = json.loads(result.stdout) if result.exit_code == 0 else {}
        except (SandboxError, ValueError) as error:
            raise EnvironmentSetupError(f"bubblewrap does not work here: {error}", where="sandbox", fix=_FIX) from error
        expected = {"home": False, "init": False, "memory": [limits.memory_mib * MIB] * 2, "interfaces": 1}
        wrong = [f"{name} is {seen.get(name)}" for name, value in expected.items() if seen.get(name) != value]
        if not 0 < seen.get("processes", 0) < limits.processes:
            wrong.append(f"it could start {seen.get('processes')} processes beside itself, not {limits.processes - 1}")
        if wrong:
            said = result.stderr.decode(errors="replace").strip()[-300:]
            raise EnvironmentSetupError(
                f"bubblewrap does not hold here: {'; '.join(wrong)}{': ' + said if said else ''}",
                where="sandbox",
                fix=_FIX,
            )

    def _namespaces(self, limits: Limits) -> list[str]:
        """Return the options of bwrap for what the program sees and may do."""
        user = (
            ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
            if self._setpriv
            else ["--unshare-all", "--uid", str(_NOBODY), "--gid", str(_NOBODY)]
        )
        rights = ["--cap-drop", "ALL"]
        if self._setpriv:
            rights += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        # Not /dev/zero: a shared mapping of it is shared anonymous memory, which the filter refuses.
        devices = [part for name in ("null", "urandom") for part in ("--dev-bind", f"/dev/{name}", f"/dev/{name}")]
        work = ["--perms", "1777", "--size", str(limits.file_bytes), "--tmpfs", WORK] if limits.file_bytes else []
        variables = {
            "PATH": "/usr/bin", "HOME": WORK, "TMPDIR": WORK, "LANG": "C.UTF-8",
            "PYTHONHASHSEED": "0", "PYTHONPATH": PROGRAM, "LD_LIBRARY_PATH": f"{_inside_prefix()}/lib",
        }  # fmt: skip
        settings = [part for name, value in variables.items() for part in ("--setenv", name, value)]
        # Without root the init has the program's user id and no limits: through /proc/1/mem it could be rewritten.
        proc = ["--proc", "/proc", "--perms", "0555", "--size", "4096", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]
        return [
            *user, *rights, "--new-session", "--die-with-parent", "--hostname", "sandbox", "--clearenv", *settings,
            *self._system, "--perms", "0755", "--dir", "/dev", *devices, *proc, *work,
            "--chdir", WORK if work else "/",
        ]  # fmt: skip

    def _launcher(self, limits: Limits) -> list[str]:
        """Return the command that sets the limits inside, for good, and if this is root changes to another user."""
        launcher = [self._prlimit, *limit_options(limits), f"--nproc={limits.processes}"]
        if self._setpriv:
            uid = str(_FIRST_FREE_UID + secrets.randbelow(_FREE_UIDS))
            launcher += [self._setpriv, f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all"]
        return launcher


def shown() -> list[tuple[Path, str]]:
    """Return what a program sees of this machine, with its place inside: what Python needs, and no other folder.

    Below these only the folders of Python's packages are hidden (`is_shown`).
    """
    prefix = Path(sys.base_prefix).resolve()
    names = ("lib", "lib32", "lib64", "share/zoneinfo")
    places = [(Path("/usr", name), f"/usr/{name}") for name in ("bin", *names)]
    places += [(Path("/", name), f"/{name}") for name in ("bin", *names) if not Path("/", name).is_symlink()]
    places += [(prefix / name, f"{_inside_prefix()}/{name}") for name in (_PYTHON, *names)]
    return [(place, inside) for place, inside in dict.fromkeys(places) if place.exists()]


def is_shown(path: Path) -> bool:
    """Return whether a program in the sandbox could read what lies at a path of this machine."""
    real = Path(os.path.realpath(path))
    inside = [str(real.relative_to(each)) for place, _ in shown() if real.is_relative_to(each := place.resolve())]
    return bool(inside) and not any(re.match("python[^/]*/[^/]*-packages(/|$)", path) for path in inside)


def _inside_prefix() -> str:
    """Return where Python's installation lies inside."""
    prefix = Path(sys.base_prefix).resolve()
    return str(prefix) if prefix.is_relative_to("/usr") else "/python"


def _system() -> list[str]:
    """Return the options of bwrap for what is shown, without Python's packages: their data may be tasks with tests."""
    above = sorted({str(folder) for _, inside in shown() for folder in Path(inside).parents} - {"/"})
    options = [part for folder in above for part in ("--perms", "0755", "--dir", folder)]
    for place, inside in shown():
        options += ["--ro-bind", str(place), inside]
        for hidden in (f"{inside}/{found.relative_to(place)}" for found in place.glob("python*/*-packages")):
            options += ["--perms", "0555", "--size", "4096", "--tmpfs", hidden, "--remount-ro", hidden]
    for place in (Path("/", name) for name in ("lib", "lib64", "lib32", "bin")):
        options += ["--symlink", str(place.readlink()), str(place)] if place.is_symlink() else []
    return options


_FIX = (
    "the sandbox needs Linux 5.14 or newer and namespaces: in Docker use --security-opt seccomp=unconfined "
    "--security-opt systempaths=unconfined, in Kubernetes a pod that may create them; Ubuntu 24.04 needs an AppArmor "
    "profile for bwrap"
)


def _folders(files: Iterable[str]) -> list[str]:
    """Return all folders above these files within the program's own, outer ones first, that one (`.`) included."""
    return sorted({str(parent) for path in files for parent in Path(path).parents} | {"."})


def _readable(data: bytes) -> int:
    """Return a file descriptor from which `data` can be read."""
    descriptor = os.memfd_create("rlft")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _read_status(descriptor: int) -> bytes:
    """Return what bwrap wrote about the process namespace.

    That is the number of its first process, and how the program ended.
    """
    try:
        return os.read(descriptor, 4096)
    except BlockingIOError:  # nothing was written, and a process still holds the other end
        return b""


def _check_status(status: bytes, result: SandboxResult) -> None:
    """Raise `SandboxError` if bwrap did not say how the program ended: then the sandbox itself has failed."""
    if result.stopped is None and b'"exit-code"' not in status:
        said = result.stderr.decode(errors="replace").strip()[-300:]
        raise SandboxError(f"bwrap failed with {result.exit_code}: {said}", where="sandbox", fix=_FIX)


# {name: (number on x86_64, number on aarch64)}
_DENIED = {
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "open_by_handle_at": (304, 265), "socket": (41, 198),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "quotactl": (179, 60),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "swapon": (167, 224), "reboot": (169, 142), "acct": (163, 89),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "kcmp": (312, 272), "process_madvise": (440, 440),
}  # fmt: skip
# Through these the kernel keeps memory that is in nobody's resident set: files without a name, pages that a pipe holds
# after their owner has dropped them (one byte holds a whole huge page), socket buffers of any size, and lists of rules,
# watches and policies that no limit bounds.
_UNSEEN = {
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180), "vmsplice": (278, 75), "splice": (275, 76), "tee": (276, 77),
    "sendfile": (40, 71), "setsockopt": (54, 208), "io_setup": (206, 0), "landlock_create_ruleset": (444, 444),
    "inotify_init": (253, 26), "inotify_init1": (294, 26), "fanotify_init": (300, 262),
    "mbind": (237, 235), "set_mempolicy": (238, 237), "set_mempolicy_home_node": (450, 450),
    "migrate_pages": (256, 238), "move_pages": (279, 239),
}  # fmt: skip
_MMAP = (9, 222)
_CLONE = (56, 220)
_CLONE3 = (435, 435)
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, AUDIT_ARCH of linux/audit.h
_NEW_NAMESPACES = 0x7E020080  # CLONE_NEWUSER, NEWNS, NEWPID, NEWNET, NEWIPC, NEWUTS, NEWCGROUP, NEWTIME
_SHARED_ANONYMOUS = 0x01 | 0x20  # the lowest bit is in MAP_SHARED and MAP_SHARED_VALIDATE and in no private type
_HUGE_PAGES = 0x40000  # MAP_HUGETLB: of the host's own pool, and not resident for statistics
_X32 = 0x40000000  # numbers from here on are calls of the x32 ABI, which would get past the list

# Instructions of classic BPF (linux/bpf_common.h).
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
# Offsets in struct seccomp_data. Of an argument only the lower half is read: the flags of clone and mmap have no
# meaning above it.
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _FOURTH_ARGUMENT = 0, 4, 16, 40
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000  # SECCOMP_RET_ALLOW, _KILL_PROCESS and _ERRNO


def seccomp_filter(machine: str | None = None) -> bytes:
    """Return the filter for a kind of machine (this one's by default), an array of `struct sock_filter`.

    Refused calls fail with EPERM, clone3 with ENOSYS (its flags lie in memory, where a filter cannot look; the C
    library then takes clone). Raises `EnvironmentSetupError` for a machine whose call numbers are not known here.
    """
    name = machine or platform.machine()
    if name not in _MACHINES:
        raise EnvironmentSetupError(
            f"the calls of a {name} machine are not known", where="sandbox", fix="use x86_64 or aarch64"
        )
    column, architecture = _MACHINES[name]
    # Each line is (instruction, lines to skip if it is true, lines to skip if not, operand).
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL),
    ]
    for numbers in (*_DENIED.values(), *_UNSEEN.values()):
        lines += [(_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, _REFUSE | errno.EPERM)]
    lines += [
        (_EQUAL, 0, 1, _CLONE3[column]),
        (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
        (_EQUAL, 0, 4, _CLONE[column]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, _REFUSE | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 0, 5, _MMAP[column]),
        (_LOAD, 0, 0, _FOURTH_ARGUMENT),
        (_ANY_BIT, 2, 0, _HUGE_PAGES),
        (_AND, 0, 0, _SHARED_ANONYMOUS),
        (_EQUAL, 0, 1, _SHARED_ANONYMOUS),
        (_RETURN, 0, 0, _REFUSE | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
