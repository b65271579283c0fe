"""Ends threads whose code does not return, as far as Python can."""

from __future__ import annotations

import ctypes
import threading


def ask_to_end(thread: threading.Thread) -> None:
    """Raise SystemExit in a thread as soon as it runs Python again; C code that does not return goes on.

    Otherwise an endless loop would take half of the interpreter's time, by its lock, while the next policy trains.
    """
    # threading cannot end a thread; this C function is the only way to raise an exception in another one.
    if thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
