"""Bootstrap intervals over tasks, for the mean score of one policy and for the difference of two.

Tasks are resampled, never single rollouts: attempts at one task resemble each other, so that counting them as
independent would make every interval too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import bootstrap

from rlft.types import Interval

# The most resampled values in memory at one time: 2 million float64 and their indices are some 32 MB.
VALUES_AT_ONCE = 2_000_000


def varies(values: Sequence[float]) -> bool:
    """Return whether numbers differ by more than a millionth of the largest, which rounding does not.

    Every question whether the rewards of a group differ is decided by this.
    """
    if len(values) < 2:
        return False
    return max(values) - min(values) > 1e-6 * max(*map(abs, values), 1e-6)


def bootstrap_interval(values: Sequence[float], *, resamples: int, seed: int, confidence: float = 0.95) -> Interval:
    """Return the mean of `values` (one per task) with its percentile bootstrap interval.

    The interval is that of Efron & Tibshirani (1993), chapter 13, from `resamples` resamples at this `confidence`.
    The same values and seed give the same interval. Values that are all equal, a single one included, have an
    interval of width 0, as all resamples have the same mean: such an interval says nothing about other tasks.

    Raises ValueError without values, or if one of them is not finite.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or data.size == 0:
        raise ValueError(f"a bootstrap interval needs a list of at least one value, got shape {data.shape}")
    if not np.isfinite(data).all():
        raise ValueError(f"{int((~np.isfinite(data)).sum())} of {data.size} values are not finite")
    if (data == data[0]).all():
        same = float(data[0])
        return Interval(mean=same, low=same, high=same, count=data.size)
    result = bootstrap(
        (data,),
        np.mean,
        n_resamples=resamples,
        batch=max(1, VALUES_AT_ONCE // data.size),
        confidence_level=confidence,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(seed),
    )
    low, high = result.confidence_interval
    return Interval(mean=float(data.mean()), low=float(low), high=float(high), count=data.size)


def common_tasks(a: Mapping[str, float], b: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Both scores, {task id: score} each, over the tasks that have one in both, in the order of their ids.

    A part of the reward need not apply to every task, and a rollout that failed has no score.
    """
    both = sorted(a.keys() & b.keys())
    return {task: a[task] for task in both}, {task: b[task] for task in both}


def paired_difference(
    a: Mapping[str, float], b: Mapping[str, float], *, resamples: int, seed: int, confidence: float = 0.95
) -> Interval:
    """Return the mean of a - b over tasks, {task id: score} each, with its bootstrap interval.

    Pairing takes out how hard each task is, which both policies share. Raises ValueError if the task ids differ.
    """
    if a.keys() != b.keys():
        raise ValueError(_describe_mismatch(a, b))
    return bootstrap_interval(
        [a[task] - b[task] for task in sorted(a)], resamples=resamples, seed=seed, confidence=confidence
    )


def _describe_mismatch(a: Mapping[str, float], b: Mapping[str, float]) -> str:
    """Say which tasks are on one side only, naming the first three of each."""
    sides = []
    for here, there, name in ((a, b, "second"), (b, a, "first")):
        missing = sorted(here.keys() - there.keys())
        if missing:
            dots = ", ..." if len(missing) > 3 else ""
            sides.append(f"{len(missing)} missing in the {name}: {', '.join(missing[:3])}{dots}")
    return f"a paired comparison needs the same tasks on both sides ({'; '.join(sides)})"
