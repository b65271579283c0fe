"""Begins the probe so that it ends with the process that asked for it, even if that one is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


def main() -> None:
    """Run the probe for the parent whose process id stands in argv, before the file descriptor for what is measured."""
    end_with_parent(int(sys.argv[-2]))
    from rlft.estimation.probe import main as probe  # here, as it takes seconds, in which the parent may be killed

    probe()


def end_with_parent(parent: int) -> None:
    """Let the kernel end this process when its parent, of this process id, is gone, be it before this began.

    Workers that the probe starts end with it in the same way. Elsewhere than on Linux nothing is done.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
