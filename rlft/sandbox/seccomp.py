"""A filter of system calls, as bytes that the kernel takes (seccomp, classic BPF; see seccomp(2)).

The namespaces already hide the host. The filter refuses calls that would give a program new namespaces (and with them
file systems in memory that no limit bounds), sockets that no network namespace confines (vsock), memory that is in no
process's account (`_UNSEEN` and shared anonymous mappings), and the calls in which most holes of the kernel were found.
"""

from __future__ import annotations

import errno
import platform
import struct

from rlft.errors import EnvironmentSetupError

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
