"""Makes a sandbox from its name in the config."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from rlft.errors import EnvironmentSetupError
from rlft.sandbox.base import Sandbox
from rlft.sandbox.bubblewrap import Bubblewrap
from rlft.sandbox.plain import NoSandbox

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
