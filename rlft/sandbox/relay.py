"""Connects the streams of a program in a container or on another machine, where only files go in and text comes out.

    python relay.py LIMITS PROGRAM...

It runs there beside the program, and imports nothing but the standard library, because only this file is sent. LIMITS
is JSON: {name of an RLIMIT: (soft, hard)}. The program's stdin comes as files `in/1`, `in/2`, ..., each of which holds
the length in decimal, a line break, and so many bytes; a length of -1 ends it. Its output leaves as lines of a letter
and base64: `s` once it has started, `o` for stdout, `e` for stderr, and `x` for its exit code at the end.

The program may kill the relay or speak in its place. It gains nothing by that, since all that the relay says counts as
the program's own words.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from typing import Any

_CHUNK, _LOOK_SECONDS = 1 << 16, 0.005
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def main() -> None:
    """Start the program of the command line, pass on what goes in and out, and wait for its end."""
    limits, command, lock = json.loads(sys.argv[1]), sys.argv[2:], threading.Lock()
    for folder in ("in", "work", "program"):
        os.makedirs(folder, exist_ok=True)
    variables = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONPATH": os.path.abspath("program")}
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, cwd="work", env=variables, preexec_fn=lambda: _bound(limits), **streams) as child:
        _say(lock, "s", b"")
        threading.Thread(target=_feed, args=(child.stdin,), daemon=True).start()
        errors = threading.Thread(target=_pass_on, args=(lock, "e", child.stderr), daemon=True)
        errors.start()
        _pass_on(lock, "o", child.stdout)
        errors.join()
    _say(lock, "x", str(child.returncode).encode())


def _bound(limits: dict[str, tuple[int, int]]) -> None:
    """Set the limits, and die with the relay; runs in the child before the program."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    for name, (soft, hard) in limits.items():
        resource.setrlimit(getattr(resource, name), (soft, hard))


def _feed(stdin: Any) -> None:
    """Write what the numbered files hold to the program's stdin."""
    number = 1
    try:
        while (data := _next(f"in/{number}")) is not None:
            stdin.write(data)
            stdin.flush()
            number += 1
        stdin.close()
    except OSError:  # the program does not read any more
        return


def _next(path: str) -> bytes | None:
    """Wait until a file is there whole, and return its bytes; `None` for the file that ends the input."""
    while True:
        length, line_break, data = _read(path).partition(b"\n")
        if line_break and length == b"-1":
            return None
        if line_break and len(data) == int(length):
            return data
        time.sleep(_LOOK_SECONDS)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _pass_on(lock: threading.Lock, kind: str, stream: Any) -> None:
    while data := stream.readline(_CHUNK):
        _say(lock, kind, data)


def _say(lock: threading.Lock, kind: str, data: bytes) -> None:
    with lock:
        sys.stdout.write(f"{kind} {base64.b64encode(data).decode()}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
