"""Checks that what trains in several processes is there: Ray, and a GPU for each of them."""

from __future__ import annotations

from pathlib import Path

from rlft.config import DistributedConfig
from rlft.distributed.cluster import is_installed
from rlft.errors import DistributedError
from rlft.readiness.device import gpus_here


def check_ray(settings: DistributedConfig | None) -> None:
    """Raise DistributedError if Ray is needed and not installed."""
    if settings is not None and not is_installed():
        raise DistributedError(
            "Ray is not installed", where="distributed.engine", fix="make setup-ray, or remove `distributed`"
        )


def check_gpus(settings: DistributedConfig | None, device: str) -> None:
    """Raise DistributedError if the trainers are to have GPUs (`policy.device`), and there are too few of these."""
    there = len(gpus_here()) if settings is not None and settings.address is None and device != "cpu" else 0
    if settings is not None and 0 < there < settings.trainers:
        raise DistributedError(
            f"{settings.trainers} trainers need a GPU each, and this machine has {there}",
            where="distributed.trainers",
            fix=f"set it to {there}, or policy.device to cpu",
        )


def check_cluster(settings: DistributedConfig | None, device: str, folder: Path) -> None:
    """Raise DistributedError if the trainers cannot work on the cluster that they are to join.

    `device` is `policy.device`, and `folder` is where policies are stored.
    """
    if settings is None or settings.address is None:
        return
    from rlft.distributed.trainers import find_problem

    on_gpu = device == "cuda" or (device == "auto" and bool(gpus_here()))
    if problem := find_problem(settings, folder, on_gpu=on_gpu):
        raise problem
