"""What several trainers (`distributed`) change: how long training takes, and what memory they hold.

Two trainers of a thread each were measured beside one, on CPUs (docs/performance.md); all else is assumed, and said to
be.
"""

from __future__ import annotations

from dataclasses import replace

from rlft.config import DistributedConfig
from rlft.estimation.rates import Rates
from rlft.estimation.span import Span, exactly

# Of the time of one process that has all the cores: the same cores do the same work, divided otherwise.
_SAME_CORES = Span(0.75, 1.5)


def time_share(settings: DistributedConfig | None, *, on_gpu: bool) -> Span:
    """Return the time of training as a share of what one process takes.

    On GPUs of their own N trainers take 1/N at least, and 2/(N+1) at most: two were 1.57 times as fast as one. On the
    CPUs of a cluster each may have a machine's cores, or all of them those of one.
    """
    if settings is None or settings.trainers == 1:
        return exactly(1.0)
    if not on_gpu:
        return Span(1 / settings.trainers, _SAME_CORES.high) if settings.address else _SAME_CORES
    return Span(1 / settings.trainers, 2 / (settings.trainers + 1))


def carried_over(before: DistributedConfig | None, now: DistributedConfig | None, *, on_gpu: bool) -> Span:
    """Return how many times as long training takes with the trainers of `now` as with those of `before`."""
    if _whose(before, on_gpu=on_gpu) == _whose(now, on_gpu=on_gpu):
        return exactly(1.0)
    was, share = time_share(before, on_gpu=on_gpu), time_share(now, on_gpu=on_gpu)
    return Span(share.low / was.high, share.high / was.low)


def trainer_memory(held: Span | None, settings: DistributedConfig | None) -> Span | None:
    """Return the bytes that each trainer holds, where one process holds so many; `None` without trainers.

    Weights, gradients and moments are divided. Of what else one process holds (rollouts that are read side by side,
    a layer that is gathered, Python and torch) nothing need be less.
    """
    if held is None or settings is None:
        return None
    return Span(held.low / settings.trainers, held.high)


def held_with_trainers(held: Span | None, settings: DistributedConfig | None, *, on_gpu: bool) -> Span | None:
    """Return the bytes that the machine, or the GPU that the run and its first trainer share, must have."""
    each = trainer_memory(held, settings)
    if held is None or each is None or settings is None:
        return held
    return Span(held.low, held.high + each.high * (1 if on_gpu else settings.trainers))


def by_trainers(rates: Rates, settings: DistributedConfig | None) -> Rates:
    """Return the rates of a run with these trainers, from those that were measured in one process."""
    return replace(rates, train=rates.train.times(time_share(settings, on_gpu=rates.on_gpu)))


def assumed(settings: DistributedConfig | None, *, on_gpu: bool) -> list[str]:
    """Return what is taken for granted of the trainers of a run, in sentences."""
    if settings is None:
        return []
    share = time_share(settings, on_gpu=on_gpu)
    cores = (
        "on cores of the cluster, of which nobody knows yet whose"
        if settings.address
        else "on the cores that one process has"
    )
    whose = "on GPUs of their own" if on_gpu else cores
    many = f"{settings.trainers} trainers" if settings.trainers > 1 else "1 trainer"
    return [
        f"Of {many}, {whose}, nothing was measured here: training is taken to need {share.low:.2g} to {share.high:.2g} "
        f"times as long as in one process, and each trainer 1/{settings.trainers} of the memory of one at least and as "
        "much at most."
    ]


def _whose(settings: DistributedConfig | None, *, on_gpu: bool) -> tuple[int, bool]:
    """Return how many train, and whether on CPUs that may be those of other machines."""
    if settings is None or settings.trainers == 1:
        return 1, False
    return settings.trainers, not on_gpu and settings.address is not None
