"""Shows the stages of a run while they go on, and names the settings to lower when one of them runs out of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rlft.config import Config
from rlft.errors import RlftError, shortage_of
from rlft.estimation.machine import Use, memory_error
from rlft.progress import Progress, silent

Show = Callable[..., AbstractContextManager[Progress]]
"""Opens a stage of a name for whoever watches; behind the name stands what it needs much memory for (`Use`)."""


@contextmanager
def unshown(name: str, *uses: Use) -> Iterator[Progress]:
    """Open a stage that nobody watches; a `Show`."""
    del name, uses
    yield silent


def watched(display: Callable[[str], AbstractContextManager[Progress]]) -> Show:
    """Return a `Show` that only displays its stages."""

    def shown(name: str, *uses: Use) -> AbstractContextManager[Progress]:
        del uses
        return display(name)

    return shown


def telling_memory(config: Config, display: Callable[[str], AbstractContextManager[Progress]]) -> Show:
    """Return a `Show` in which memory that runs out is an error that names the settings to lower."""

    @contextmanager
    def shown(name: str, *uses: Use) -> Iterator[Progress]:
        with display(name) as progress:
            try:
                yield progress
            except RlftError:
                raise
            except Exception as cause:
                kind = shortage_of(cause)
                if kind not in ("memory", "gpu"):
                    raise
                raise memory_error(name, uses, config, kind, str(cause)) from cause

    return shown
