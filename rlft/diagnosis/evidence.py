"""Whether what a curve shows is more than chance brings about: every check asks here before it accuses a run.

Each question is answered wrongly with probability `LEVEL` at most, an upper bound is too low with `LEVEL_OF_BOUND`.
Whoever asks the same question again and again, as monitors do while a run goes on, asks at a lower `level`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import betaincinv, stdtrit

LEVEL = 0.01  # of each one-sided question
LEVEL_OF_BOUND = 0.05
_EXACT = 10  # numbers up to which ties are broken, as the normal approximation is poor for so few


def passes(share: float, bound: float, groups: float, level: float = LEVEL) -> bool:
    """Return whether a share in [0, 1] lies above `bound` beyond chance, if it is that of so many independent groups.

    The exact lower bound of a binomial share (Clopper & Pearson 1934) is compared. Attempts at one task resemble each
    other, so that n groups of G attempts are taken to say no more than n attempts: where they resemble each other less,
    fewer runs are accused than `level` allows.
    """
    if groups <= 0 or share <= bound:
        return False
    found = share * groups
    return bool(betaincinv(found, groups - found + 1, level) >= bound)


def enough_to_see(share: float) -> int:
    """Return of how many independent groups at least one shows what a share of them has, but for a chance of `LEVEL`.

    None of n shows it with probability (1 - share)^n.
    """
    return math.ceil(math.log(LEVEL) / math.log(1 - share))


def rises(curve: Sequence[float], level: float = LEVEL) -> bool:
    """Return whether a curve rises by more than chance: Mann's test against trend (Kendall's tau with the time).

    It knows the order of the numbers alone, so it holds for noise of any distribution, as long as that is the same in
    every round and independent: of noise with a correlation of 0.6 from one round to the next 10 % pass, not 1 %. Up to
    ten numbers it is exact, with equal ones counted as falling. Fewer than five never pass, as even the rarest of all
    4! orders comes about by chance in 4 %.
    """
    values = np.asarray(curve, dtype=np.float64)
    if len(values) < 2 or not np.isfinite(values).all() or (values == values[0]).all():
        return False
    times = np.arange(len(values))
    if len(values) <= _EXACT:
        values = np.argsort(np.lexsort((-times, values)))  # of equal numbers the earlier one becomes the higher one
    from scipy import stats  # takes half a second to load

    _, chance = np.asarray(stats.kendalltau(times, values, alternative="greater"))
    return bool(chance <= level)


def falls(curve: Sequence[float], level: float = LEVEL) -> bool:
    """Return whether a curve falls by more than chance, as `rises` tests it."""
    return rises([-each for each in curve], level)


def drifts(curve: Sequence[float], level: float = LEVEL) -> bool:
    """Return whether a curve rises or falls by more than chance; either has half of `level`."""
    return rises(curve, level / 2) or falls(curve, level / 2)


def largest_rise(curve: Sequence[float], level: float = LEVEL_OF_BOUND) -> float:
    """Return an upper bound of how much a curve has risen from its first to its last number, but for noise.

    It is that of the slope of a straight line (Student's t, one-sided at `level`), and infinite with fewer than four
    numbers.
    """
    if len(curve) < 4:
        return math.inf
    values, times = np.asarray(curve, dtype=np.float64), np.arange(len(curve)) - (len(curve) - 1) / 2
    spread = float(np.sum(times**2))
    slope = float(np.sum(times * values)) / spread
    left = values - values.mean() - slope * times
    error = math.sqrt(float(np.sum(left**2)) / (len(curve) - 2) / spread)
    return (slope + float(stdtrit(len(curve) - 2, 1 - level)) * error) * (len(curve) - 1)
