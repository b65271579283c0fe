"""Runs a function in several processes that are one world, forked from this one, so that nothing is imported again."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from rlft.training.distributed.trainer_actor import TorchWorld, join, leave


def run_together(size: int, place: Path, work: Callable[[TorchWorld], Any], *, seconds: float = 300) -> list[Any]:
    """What `work` returns in each of `size` workers, by rank; fails with the traceback of the first that raises."""
    context = multiprocessing.get_context("fork")
    links = [context.Pipe(duplex=False) for _ in range(size)]
    workers = [
        context.Process(target=_run, args=(rank, size, place / f"meet{size}", work, seconds, links[rank][1]))
        for rank in range(size)
    ]
    for worker in workers:
        worker.start()
    found = [receiver.recv() for receiver, _ in links]
    for worker in workers:
        worker.join()
    wrong = [said for kind, said in found if kind == "error"]
    assert not wrong, "\n".join(wrong)
    return [value for _, value in found]


def _run(rank: int, size: int, place: Path, work: Callable[[TorchWorld], Any], seconds: float, sender: Any) -> None:
    try:
        device = torch.device("cpu")
        sender.send(("value", work(join(place, rank=rank, size=size, device=device, seconds=seconds))))
        leave()
    except Exception:  # whatever it is, the test is told
        sender.send(("error", traceback.format_exc()))
