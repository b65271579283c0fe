"""What a sandbox is: a place to run a program that may do anything, from which nothing comes but its output.

Two implementations are here (`bubblewrap`, `none`). A container or a remote service fits the same interface: `open`
starts the program with the files in place and connects its standard streams, and nothing else needs to be shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from rlft.errors import EnvironmentSetupError

Stopped = Literal["time", "cpu", "memory", "output", "files", "caller"]
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use at most. More than that ends it, or the system refuses it.

    `seconds` is wall time of the whole program and `cpu_seconds` processor time of each process. `memory_mib` bounds
    the address space of each process, and the memory in use of all of them together (resident, swapped out, page
    tables) as it is seen every 50 ms. `processes` counts threads too. `output_bytes` bounds stdout and stderr, each.
    `file_bytes` is the size of the working directory, which lies in memory beside that; with 0 there is no place to
    write to.
    """

    seconds: float = 20.0
    cpu_seconds: int = 10
    memory_mib: int = 512
    processes: int = 16
    output_bytes: int = MIB
    file_bytes: int = 0

    def __post_init__(self) -> None:
        for name in ("seconds", "cpu_seconds", "memory_mib", "processes", "output_bytes"):
            if getattr(self, name) <= 0:
                raise EnvironmentSetupError(f"{name} must be greater than 0", where="sandbox limits")
        if self.file_bytes < 0:
            raise EnvironmentSetupError("file_bytes must not be negative", where="sandbox limits")


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """How a program ended. `exit_code` is 128 + n after signal n; `stopped` says which limit ended it, if one did."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    seconds: float
    stopped: Stopped | None = None


class SandboxProcess(Protocol):
    """A running program. Leaving the context of `open` ends it with everything it has started."""

    @property
    def stopped(self) -> Stopped | None:
        """The limit that ended the program, `caller` if it was ended from outside, else `None`."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes to its stdin; to a program that has ended or does not listen they are lost."""
        ...

    async def close_stdin(self) -> None:
        """Let it read the end of its stdin."""
        ...

    async def read_line(self) -> bytes | None:
        """The next line of its stdout, `None` after the last whole one, or when the program was stopped."""
        ...

    async def result(self) -> SandboxResult:
        """Wait for its end and say how it ended; `stdout` is what was not read as lines."""
        ...


class Sandbox(Protocol):
    """Runs programs under limits, with no network, no files of the host but the system's, no secrets."""

    @property
    def description(self) -> str:
        """What it is, and which Python it has; enters the fingerprint of what was scored with it."""
        ...

    @property
    def python(self) -> tuple[str, ...]:
        """How to start Python inside: the path there, and options."""
        ...

    def open(
        self, argv: Sequence[str], *, files: Mapping[str, str] | None = None, limits: Limits | None = None
    ) -> AbstractAsyncContextManager[SandboxProcess]:
        """Start a program. `files` maps paths below `PROGRAM` to their text; they can be read, not written.

        Raises `SandboxError` when the sandbox itself cannot start. No shell is involved.
        """
        ...


async def run_program(
    sandbox: Sandbox,
    argv: Sequence[str],
    *,
    files: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    limits: Limits | None = None,
) -> SandboxResult:
    """Run a program to its end, or to its limit. Raises `SandboxError` when the sandbox itself fails."""
    async with sandbox.open(argv, files=files, limits=limits) as process:
        await process.write(stdin)
        await process.close_stdin()
        return await process.result()
