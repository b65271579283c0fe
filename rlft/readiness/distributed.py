"""Checks that what works in several processes is there: Ray, and GPUs for them."""

from __future__ import annotations

from pathlib import Path

from rlft.config import Config, DistributedConfig
from rlft.distributed.demand import Demand
from rlft.distributed.local_cluster import counted, is_installed
from rlft.environments.workers.machine import cores_here
from rlft.errors import DistributedError
from rlft.readiness.device import gpus_here


def check_ray(settings: DistributedConfig | None) -> None:
    """Raise DistributedError if Ray is needed and not installed."""
    if settings is not None and not is_installed():
        raise DistributedError(
            "Ray is not installed", where="distributed.engine", fix="make setup-ray, or remove `distributed`"
        )


def check_gpus(config: Config) -> None:
    """Raise DistributedError if trainers or engines are to have GPUs of this machine, and there are too few."""
    demand = Demand.of(config, on_gpu=True)
    there = len(gpus_here()) if demand and demand.settings.address is None and config.policy.device != "cpu" else 0
    if demand is None or not there:
        return
    if demand.trainers and not demand.engines and there < demand.trainers:
        raise DistributedError(
            f"{demand.trainers} trainers need a GPU each, and this machine has {there}",
            where="distributed.trainers",
            fix=f"set it to {there}, or policy.device to cpu",
        )
    needed = max(demand.trainers, 1) + demand.engines * demand.gpus_each
    if demand.engines and there < needed:
        raise DistributedError(
            f"training and {counted(demand.engines, 'engine')} of {counted(demand.gpus_each, 'GPU')} need {needed} "
            f"GPUs, and this machine has {there}",
            where="rollout.server.engines",
            fix="set it, tensor_parallel_size or distributed.trainers lower, or policy.device to cpu",
        )


def check_cores(config: Config) -> None:
    """Raise DistributedError if there are more trainers than cores of this machine, where they are to have these."""
    settings, device = config.distributed, config.policy.device
    if settings is None or settings.address is not None or (device != "cpu" and gpus_here()):
        return
    if settings.trainers > (there := cores_here()):
        raise DistributedError(
            f"{settings.trainers} trainers need a core each, and this machine has {there}",
            where="distributed.trainers",
            fix=f"set it to {there} or less",
        )


def check_machine(config: Config) -> None:
    """Raise DistributedError if this machine lacks what several processes need: for a run that goes on here."""
    check_ray(config.distributed)
    check_gpus(config)
    check_cores(config)


def check_cluster(config: Config, folder: Path) -> None:
    """Raise DistributedError if the run's work cannot be done on the cluster that it is to join.

    `folder` is where policies are stored.
    """
    if config.distributed is None or config.distributed.address is None:
        return
    from rlft.distributed.director_process import find_problem

    device = config.policy.device
    demand = Demand.of(config, on_gpu=device == "cuda" or (device == "auto" and bool(gpus_here())))
    assert demand is not None
    if problem := find_problem(demand, folder):
        raise problem
