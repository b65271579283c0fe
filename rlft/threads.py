"""Threads that are left behind because their code does not return."""

from __future__ import annotations

import ctypes
import threading


def ask_to_end(thread: threading.Thread) -> None:
    """Raise SystemExit in a thread as soon as it runs Python again; C code that does not return goes on.

    Without this an endless loop would go on eating half of the interpreter while the next policy trains.
    """
    if thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
