"""The interface of a sandbox, which runs a program that may do anything and lets out nothing but its output.

Two implementations are here, `bubblewrap` and `none` (`rlft.sandbox.create`). A container or a remote service fits the
same interface: `open` starts the program with the files in place and connects its standard streams, and nothing else
needs to be shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import Field
from pydantic.dataclasses import dataclass as validated

Stopped = Literal["time", "cpu", "memory", "output", "files", "caller"]
"""Why a program was stopped: the limit that it reached, or `caller` if it was ended from outside."""
MIB = 1 << 20


@validated(frozen=True, slots=True)
class Limits:
    """The most that a program may use. More than that is refused by the system, or ends the program.

    `seconds` is wall time of the whole program and `cpu_seconds` processor time of each process. `memory_mib` bounds
    the address space of each process, and the memory in use of all of them together (resident, swapped out, page
    tables), which is looked at every 50 ms. `processes` counts threads too. `output_bytes` bounds stdout and stderr,
    each. `file_bytes` is the size of the working directory, which takes memory beyond `memory_mib`; with 0 there is no
    place to write to. Raises pydantic's ValidationError for values that bound nothing.
    """

    seconds: float = Field(default=20.0, gt=0)
    cpu_seconds: int = Field(default=10, gt=0)
    memory_mib: int = Field(default=512, gt=0)
    processes: int = Field(default=16, gt=0)
    output_bytes: int = Field(default=MIB, gt=0)
    file_bytes: int = Field(default=0, ge=0)


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """How a program ended. `exit_code` is 128 + n after signal n; `stopped` is the limit that ended it, if one did."""

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
        """Close its stdin, so that it reads the end of it."""
        ...

    async def read_line(self) -> bytes | None:
        """Return the next line of its stdout; `None` after the last whole line, or if the program was stopped."""
        ...

    async def result(self) -> SandboxResult:
        """Wait for its end and return how it ended; `stdout` is what `read_line` has not returned."""
        ...


class Sandbox(Protocol):
    """Runs programs under limits, without network, secrets, and any files of the host but those of the system."""

    @property
    def description(self) -> str:
        """The kind of sandbox and its Python, in words. It enters the fingerprint of what is scored with it."""
        ...

    @property
    def python(self) -> tuple[str, ...]:
        """The command that starts Python inside: its path there, and options."""
        ...

    def open(
        self, argv: Sequence[str], *, files: Mapping[str, str] | None = None, limits: Limits | None = None
    ) -> AbstractAsyncContextManager[SandboxProcess]:
        """Start the program `argv`, without a shell, and end it when the context is left.

        `files` maps paths to their text. Python finds them as modules; they can be read but not written. Raises
        `SandboxError` if the sandbox itself fails.
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
    """Run a program until it ends or reaches a limit. Raises `SandboxError` if the sandbox itself fails."""
    async with sandbox.open(argv, files=files, limits=limits) as process:
        await process.write(stdin)
        await process.close_stdin()
        return await process.result()
