"""The engines that Ray starts for a run, as its process sees them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rlft.config import EngineSettings
from rlft.distributed.director_process import DirectorProcess
from rlft.distributed.messages import StartEngines
from rlft.engines.ordered import Served
from rlft.engines.ordering import order_for
from rlft.policy import Policy
from rlft.secrets.hiding import remember
from rlft.temporary import folder_prefix, remove_left_behind

_KIND = "start"  # of temporary folders


class RayEngines:
    """Starts the engines that the settings ask for; `folder` is where their machines see files of this one."""

    def __init__(self, director: DirectorProcess, settings: EngineSettings, batch_size: int, folder: Path) -> None:
        self._director, self._settings, self._batch_size = director, settings, batch_size
        self.folder = folder

    def start(self, policy: Policy) -> Sequence[Served]:
        """Start servers for a policy, whose weights are still to be pushed, and return them once they answer.

        Raises EngineError if one does not start, DistributedError, and as `order_for` does.
        """
        remove_left_behind(_KIND, self.folder)
        within = self._settings.server.start_seconds
        with tempfile.TemporaryDirectory(prefix=folder_prefix(_KIND), dir=self.folder) as folder:
            order = order_for(policy, self._settings, self._batch_size, Path(folder))
            found: list[Served] = self._director.ask(StartEngines(order, within, self.folder), within, lambda _: None)
        for each in found:
            remember(each.key)
        return found


def shared_folder(address: str | None, scratch: Path) -> Path:
    """Return where trainers and engines see files: beside the policies in a cluster, else where temporary files go."""
    return Path(tempfile.gettempdir()) if address is None else Path(os.path.realpath(scratch)).parent
