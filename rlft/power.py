"""What a gate can see, before a run is paid for: the smallest true gain that it is likely to find, if any."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
from scipy.stats import norm

from rlft.gates.looks import confidence_at
from rlft.statistics import IMAGINED_OF_DIFFERENCE, SHARE, bounds, common_tasks
from rlft.types import EvaluationReport

DISCORDANCE = 0.3  # the share of tasks that one of two policies solves and the other does not, where none was measured
POWER = 0.8
MIN_GROUPS = 20  # with fewer groups the spread between them is hardly known, and no interval holds
_STEPS = 20  # of bisection: the gain is found to a millionth


def smallest_gain(
    groups: float,
    *,
    confidence: float = 0.95,
    discordance: float = DISCORDANCE,
    power: float = POWER,
    minimum: float = 0.0,
) -> float | None:
    """Return the smallest true gain in a share, above `minimum` and below 1, that so many groups find at this `power`.

    It is found if the lower bound of the paired difference (`rlft.statistics.paired_difference`, two-sided
    `confidence`) is above `minimum`. `discordance` is the share of groups on which the policies differ; a larger gain
    needs a larger one. The measured gain is taken as normal with the variance of a paired difference, `discordance -
    gain^2` a group (Connor 1987, Biometrics 43). In simulations with 20 groups and more the power is 0.76 to 0.95 where
    0.8 is asked for, and above 0.85 only with fewer than 100. `None` if no gain below 1 is found so often.
    """
    count, margin = int(groups), float(norm.ppf(power))

    def is_found(gain: float) -> bool:
        differing = max(discordance, gain)
        needed = _smallest_found(count, round(count * differing), confidence, minimum)
        return needed is not None and gain - margin * math.sqrt((differing - gain**2) / count) >= needed

    low, high = minimum, 1.0
    if count < 2 or low >= high or not is_found(1 - 1e-6):
        return None
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return high


def _smallest_found(count: int, differing: int, confidence: float, minimum: float) -> float | None:
    """Return the smallest gain that, where it is measured, has a lower bound above `minimum`; `None` without one.

    `differing` of the groups are gained or lost.
    """
    low, high = 0, differing + 1  # the surplus of gained groups over lost ones
    while high - low > 1:
        surplus = (low + high) // 2
        gained = (differing + surplus + 1) // 2
        differences = np.zeros(count)
        differences[:gained] = 1.0
        differences[gained:differing] = -1.0
        ends = bounds(
            differences, np.ones(count), SHARE.minus(SHARE), imagined=IMAGINED_OF_DIFFERENCE, confidence=confidence
        )
        low, high = (low, surplus) if float(ends[0]) > minimum else (surplus, high)
    return high / count if high <= differing else None


def few_groups(split: str, groups: int, effective: float) -> str | None:
    """Return why nothing can be promoted by a split with so many groups of tasks; `None` if it has enough.

    `effective` is how many groups of equal size say as much.
    """
    if effective >= MIN_GROUPS:
        return None
    has = f"{split} has {groups} groups of tasks"
    if groups >= MIN_GROUPS:
        has += f" of such unequal size that they count as {effective:.1f}"
    return (
        f"{has}, and at least {MIN_GROUPS} are needed to know how far they spread; make the split larger, or take data "
        "with more groups (tasks.group)"
    )


def squared_difference(ours: EvaluationReport, theirs: EvaluationReport, metric: str) -> float | None:
    """Return the mean over tasks of the squared difference; `None` without a task that was scored for both.

    Of a metric that is 0 or 1 for each task it is the discordance, the share of tasks on which they differ.
    """
    a, b = common_tasks(ours.per_task.get(metric, {}), theirs.per_task.get(metric, {}))
    return fmean((a[task] - b[task]) ** 2 for task in a) if a else None


def smallest_difference(
    squared: float, effective: float, metric: str, *, confidence: float = 0.95, power: float = POWER
) -> float | None:
    """Return the smallest true difference of two policies, in the metric, that is found at this `power`.

    It is found if the interval of the paired difference (two-sided `confidence`) does not reach 0. `squared` is the
    `squared_difference` of both policies, `effective` how many groups of equal size say as much as theirs. `None` if a
    share differs by no amount that is found so often, or if there are fewer than two groups.
    """
    if effective < 2:
        return None
    if metric == "accuracy":
        return smallest_gain(effective, confidence=confidence, discordance=squared, power=power)
    return _spreads(confidence, effective, power) * math.sqrt(squared)


def _spreads(confidence: float, effective: float, power: float = POWER) -> float:
    """Return the smallest difference that is found, in standard deviations of the difference between groups."""
    return float(norm.ppf((1 + confidence) / 2) + norm.ppf(power)) / math.sqrt(max(effective, 1.0))


def gate_sentence(
    tasks: int,
    groups: int,
    effective: float,
    *,
    metric: str,
    looks: int = 1,
    measured: float | None = None,
    minimum: float = 0.0,
) -> str:
    """Return in a sentence what a gate of so many tasks can see.

    `effective` is how many groups of equal size say as much (`rlft.statistics.effective_groups`), `looks` how many
    decisions share the chance of a false one (`rlft.gates.looks.confidence_at`), `measured` the `squared_difference` at
    the last decision on this gate, `minimum` what the lower bound must exceed (`promotion.min_improvement`). Without
    `measured` a share is taken to differ on `DISCORDANCE` of the tasks, and a gain of the reward is in units of the
    standard deviation of its difference.
    """
    confidence = confidence_at(looks)
    has = f"the gate has {tasks} tasks in {groups} groups"
    if effective < 0.9 * groups:
        has += f", which count as {effective:.0f} of equal size"
    begin = f"{has}: {f'at the level for {looks} looks at one gate' if looks > 1 else 'at one look'}"
    last = "" if measured is None else ", as at the last decision on this gate"
    found = "is found four times out of five"
    if minimum:
        found += f" to exceed promotion.min_improvement ({minimum:g})"
    if metric != "accuracy":
        spreads = _spreads(confidence, effective)
        if measured is None:
            gain = f"{minimum:g} and {spreads:.2f}" if minimum else f"{spreads:.2f}"
            return f"{begin} a true gain of {gain} standard deviations of the difference between groups {found}"
        spread = math.sqrt(measured)
        return (
            f"{begin} a true gain of {minimum + spreads * spread:.3g} {found}, if the {metric} differs by {spread:.3g} "
            f"(root mean square){last}"
        )
    discordance = DISCORDANCE if measured is None else measured
    gain = smallest_gain(effective, confidence=confidence, discordance=discordance, minimum=minimum)
    if gain is None:
        return f"{begin} no gain {found}"
    return (
        f"{begin} a true gain of {100 * gain:.1f} points {found}, if the models differ on {max(discordance, gain):.0%} "
        f"of the tasks{last if discordance >= gain else ''}"
    )
