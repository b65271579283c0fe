"""Lets environments run programs in the sandbox of the active ZenML stack (a container, a remote service)."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from zenml.client import Client
from zenml.sandboxes import BaseSandbox, SandboxSession

from mlops.stacks.process import StackProcess, upload
from rlft.errors import EnvironmentSetupError, SandboxError
from rlft.sandbox import relay
from rlft.sandbox.base import MIB, Limits
from rlft.workers.threads import in_thread

logger = logging.getLogger(__name__)
_RELAY = Path(relay.__file__)


def stack_sandbox() -> StackSandbox:
    """Return the sandbox of the active stack. Raises EnvironmentSetupError if it has none."""
    stack = Client().active_stack
    if stack.sandbox is None:
        raise EnvironmentSetupError(
            f"the stack {stack.name!r} has no sandbox",
            where="environment.kwargs.sandbox",
            fix="zenml sandbox register NAME --flavor=docker && zenml stack update STACK --sandbox NAME; or set it to "
            "auto",
        )
    return StackSandbox(stack.sandbox)


class StackSandbox:
    """A `Sandbox` in which every program has a session of its own, which is destroyed after it.

    Its walls (network, processes, memory of all together) are the component's; time and output are bounded from here,
    memory and processor time of each process by the relay inside, which needs a `python3` of 3.11 or newer there.
    """

    def __init__(self, component: BaseSandbox) -> None:
        self._component = component

    @property
    def description(self) -> str:
        """The component's flavor and the identity of its settings."""
        settings = self._component.config.model_dump_json().encode()
        return f"ZenML sandbox {self._component.flavor}, {hashlib.sha256(settings).hexdigest()}"

    @property
    def python(self) -> tuple[str, ...]:
        """How to start Python inside: as it is found there, without its site packages."""
        return ("python3", "-S", "-s", "-P", "-B")

    @asynccontextmanager
    async def open(
        self, argv: Sequence[str], *, files: Mapping[str, str] | None = None, limits: Limits | None = None
    ) -> AsyncIterator[StackProcess]:
        """Start a program, as `rlft.sandbox.base.Sandbox.open` says. Raises SandboxError."""
        limits = limits or Limits()
        try:
            session = await in_thread(lambda: self._component.create_session(destroy_on_exit=True))
        except Exception as cause:
            raise SandboxError(f"the stack's sandbox gives no session: {cause}", where="sandbox") from cause
        try:
            process = await in_thread(lambda: _start(session, argv, files or {}, limits))
            try:
                await process.begin()
                yield process
            finally:
                process.stop("caller")
        finally:
            await in_thread(lambda: _destroy(session))


def _start(session: SandboxSession, argv: Sequence[str], files: Mapping[str, str], limits: Limits) -> StackProcess:
    """Upload the relay and the program's files, and start them. Raises SandboxError. Blocks: files go one by one."""
    try:
        upload(session, _RELAY.read_bytes(), "relay.py")
        for path, text in files.items():
            upload(session, text.encode(), f"program/{path}")
        running = session.exec(["python3", "relay.py", json.dumps(_bounds(limits)), *argv])
    except Exception as cause:
        raise SandboxError(f"the stack's sandbox does not start a program: {cause}", where="sandbox") from cause
    return StackProcess(session, running, limits)


def _bounds(limits: Limits) -> dict[str, tuple[int, int]]:
    """Return the (soft, hard) limits of each process, by their names in `resource`.

    At the soft limit of processor time the kernel sends SIGXCPU, which tells that limit from others; at the hard one it
    kills.
    """
    memory, seconds = limits.memory_mib * MIB, limits.cpu_seconds
    files = limits.file_bytes
    return {
        "RLIMIT_AS": (memory, memory),
        "RLIMIT_CPU": (seconds, seconds + 1),
        "RLIMIT_FSIZE": (files, files),
        "RLIMIT_CORE": (0, 0),
    }


def _destroy(session: SandboxSession) -> None:
    try:
        session.destroy()
    except NotImplementedError:  # such a service ends its sandboxes by itself
        session.close()
    except Exception:
        logger.warning("a session of the stack's sandbox could not be destroyed", exc_info=True)
