"""What a run asks of Ray: how many processes of which kind, and what each needs."""

from __future__ import annotations

from dataclasses import dataclass

from rlft.config import Config, DistributedConfig


@dataclass(frozen=True, slots=True)
class Demand:
    """Processes that train, engines that sample, and the settings of `distributed`.

    Each of `trainers` needs a GPU, or on CPUs a core; each of `engines` needs `gpus_each` GPUs of one machine. Without
    trainers the run trains in its own process, which has the first GPU of its machine.
    """

    settings: DistributedConfig
    on_gpu: bool
    trainers: int = 0
    engines: int = 0
    gpus_each: int = 1

    @classmethod
    def of(cls, config: Config, *, on_gpu: bool) -> Demand | None:
        """Return what a run with this config asks for; `None` without `distributed`."""
        settings, server = config.distributed, config.rollout.server
        if settings is None:
            return None
        engines = (server.engines or 0) if config.rollout.starts_engines else 0
        trainers = settings.trainers if settings.trainers > 1 else 0
        return cls(settings, on_gpu, trainers, engines, server.tensor_parallel_size)

    @property
    def gpus(self) -> int:
        """GPUs that Ray hands out to all of them."""
        return self.trainers + self.engines * self.gpus_each if self.on_gpu else 0


def gpus_used(demand: Demand | None, here: int) -> int:
    """Return how many GPUs a run uses whose own machine has so many: in a cluster those of others count as well.

    The run's own process has one that Ray does not hand out. With trainers it shares one with them.
    """
    if demand is None or not demand.on_gpu:
        return here
    return max(here, demand.gpus + (0 if demand.trainers else 1))
