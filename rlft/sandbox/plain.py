"""No sandbox: a subprocess with limits, for code that is trusted, or a machine that is itself the sandbox."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from rlft.sandbox.base import Limits
from rlft.sandbox.process import LimitedProcess, exceeded, find_program, kill_tree, limit_options, start


class NoSandbox:
    """A `Sandbox` in name only: memory, time and output are bounded; files, network and other processes are open.

    The number of processes is not limited, since the system counts all those of the user, and a process that detaches
    itself may outlive the program.
    """

    def __init__(self) -> None:
        """Find the programs that it needs. Raises `EnvironmentSetupError` if one is missing."""
        self._prlimit = find_program("prlimit", "install util-linux")

    @property
    def description(self) -> str:
        """The kind of sandbox and the version of its Python."""
        return f"no sandbox, Python {sys.version.split()[0]}"

    @property
    def python(self) -> tuple[str, ...]:
        """The command that starts Python inside, without its site packages."""
        return (getattr(sys, "_base_executable", sys.executable), "-S", "-s", "-P", "-B")

    @asynccontextmanager
    async def open(
        self, argv: Sequence[str], *, files: Mapping[str, str] | None = None, limits: Limits | None = None
    ) -> AsyncIterator[LimitedProcess]:
        """Start a program; see `Sandbox`."""
        limits = limits or Limits()
        with tempfile.TemporaryDirectory(prefix="rlft-") as folder:
            for path, text in (files or {}).items():
                place = Path(folder, path)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8")
            variables = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONPATH": folder}
            watch = partial(exceeded, limits=limits, work=None)
            command = [self._prlimit, *limit_options(limits), *argv]
            async with start(
                command, environment=variables, limits=limits, watch=watch, kill=kill_tree, folder=folder
            ) as process:
                yield process
