"""Programs that take memory of the host which is in no process's resident set, more than their limit in all.

Each takes 0.5 to 1 GiB if nothing stops it, and then waits for a second.
"""

_LIBC = """
import ctypes, fcntl, mmap, os, socket, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
kept = []
"""
_TOUCH_AND_DROP = """
for _ in range(2): os.fork()
for _ in range(6):
    kept.append(mmap.mmap({file}, 32 << 20))
    for at in range(0, 32 << 20, 4 << 20):
        kept[-1][at:at + (4 << 20)] = bytes(4 << 20)
        kept[-1].madvise(mmap.MADV_DONTNEED)
"""
_HOARDS = {
    "shared_anonymous": _TOUCH_AND_DROP.format(file=-1),
    "shared_zeros": _TOUCH_AND_DROP.format(file="os.open('/dev/zero', os.O_RDWR)"),
    "vmsplice": """
HUGE, HUGEPAGE = 2 << 20, 14
class Piece(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("length", ctypes.c_size_t)]
for _ in range(12):
    kept.append(os.pipe())
    fcntl.fcntl(kept[-1][1], fcntl.F_SETPIPE_SZ, 1 << 20)
    block = mmap.mmap(-1, 41 * HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block.madvise(HUGEPAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(block))
    for at in range(-(-start // HUGE) * HUGE, start + 40 * HUGE, HUGE):
        ctypes.memset(at, 1, 1)
        assert libc.vmsplice(kept[-1][1], ctypes.byref(Piece(at, 1)), 1, 0) == 1
        libc.madvise(at, HUGE, mmap.MADV_DONTNEED)
""",
    "page_tables": """
FIXED_NOREPLACE = 0x100000
for gib in range(16, 60000):
    at = libc.mmap(gib << 30, 4096, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | FIXED_NOREPLACE, -1, 0)
    if at == gib << 30:
        ctypes.memset(at, 1, 1)
        libc.madvise(at, 4096, mmap.MADV_DONTNEED)
time.sleep(0.3)
os.fork()
""",
    "socket_buffers": """
for _ in range(2): os.fork()
for _ in range(28):
    left, right = socket.socketpair()
    left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
    left.setblocking(False)
    kept.append(right)
    try:
        while True: left.send(bytes(1 << 16))
    except BlockingIOError: pass
""",
    "landlock_rules": """
class Port(ctypes.Structure):
    _fields_ = [("access", ctypes.c_uint64), ("port", ctypes.c_uint64)]
os.fork()
for _ in range(56):
    kept.append(libc.syscall(444, (ctypes.c_uint64 * 2)(0, 3), 16, 0))
    assert kept[-1] >= 0
    for number in range(65536):
        libc.syscall(445, kept[-1], 2, ctypes.byref(Port(3, number)), 0)
""",
}
HOARDS = {name: f"{_LIBC}{code}\ntime.sleep(1)" for name, code in _HOARDS.items()}
