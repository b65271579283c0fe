"""What a run has in Ray: its trainers and engines, which the same process directs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rlft.config import DistributedConfig, EngineSettings
from rlft.distributed.demand import Demand
from rlft.distributed.director_process import DirectorProcess
from rlft.distributed.engines import RayEngines, shared_folder
from rlft.distributed.trainers import Trainers
from rlft.policy.origin import choose_device


class OnRay:
    """Starts the process that uses Ray when something is first asked of it.

    `demand` returns what the whole run asks of Ray, `None` where nobody says that: then it is what is asked first.
    Policies are exchanged in `scratch`, or beside it where all machines of a cluster see them.
    """

    def __init__(self, demand: Callable[[], Demand | None], scratch: Path) -> None:
        self._demand, self._scratch = demand, scratch
        self._director: DirectorProcess | None = None
        self._trainers: Trainers | None = None

    def trainers(self, settings: DistributedConfig, device: str) -> Trainers:
        """Return the processes that train together; they are started by their first round.

        Where they are, and how long they are waited for, says the demand of the run, and not the settings.
        """
        if self._trainers is None:
            on_gpu = choose_device(device).type == "cuda"
            director = self._directed(Demand(settings, on_gpu, settings.trainers))
            self._trainers = Trainers(director, self._folder(director))
        return self._trainers

    def engines(self, settings: EngineSettings, batch_size: int, device_type: str) -> RayEngines | None:
        """Return what starts the engines, if the settings ask for some."""
        server = settings.server
        if server.engines is None:
            return None
        local, on_gpu = DistributedConfig(engine="ray"), device_type == "cuda"
        director = self._directed(Demand(local, on_gpu, 0, server.engines, server.tensor_parallel_size))
        return RayEngines(director, settings, batch_size, self._folder(director))

    def close(self) -> None:
        """End the process, and with it all that it has started."""
        if self._director is not None:
            self._director.close()
        self._director = self._trainers = None

    def _directed(self, needed: Demand) -> DirectorProcess:
        if self._director is None:
            self._director = DirectorProcess(self._demand() or needed)
        return self._director

    def _folder(self, director: DirectorProcess) -> Path:
        return shared_folder(director.demand.settings.address, self._scratch)
