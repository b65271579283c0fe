"""Makes a sandbox from its name in the config; `none` is a subprocess with limits, for code that is trusted."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from rlft.errors import EnvironmentSetupError
from rlft.sandbox.base import Limits, Sandbox
from rlft.sandbox.bubblewrap import Bubblewrap
from rlft.sandbox.process import LimitedProcess, exceeded, find_program, limit_options, start

logger = logging.getLogger(__name__)


def create_sandbox(name: str = "auto") -> Sandbox:
    """Return the sandbox of this name: `bubblewrap`, `none`, or `auto`, which means bubblewrap and never none.

    Bubblewrap is tried out first, which takes about 0.1 s. Raises `EnvironmentSetupError`, which says what to install
    or to allow, if it does not hold. `none` is logged as a warning.
    """
    if name == "none":
        logger.warning("sandbox: none. Code that the model writes runs with the rights of this process")
        return NoSandbox()
    if name not in ("auto", "bubblewrap"):
        raise EnvironmentSetupError(
            f"there is no sandbox {name!r}", where="environment.kwargs.sandbox", fix="use auto, bubblewrap or none"
        )
    try:
        sandbox = Bubblewrap()
        # In a thread of its own, because the caller may be inside an event loop.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, sandbox.check()).result()
    except EnvironmentSetupError as error:
        raise EnvironmentSetupError(
            error.what, where=error.where, fix=f"{error.fix}; or write sandbox: none where the model's code may do harm"
        ) from error
    return sandbox


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
            async with start(command, environment=variables, limits=limits, watch=watch, folder=folder) as process:
                yield process
