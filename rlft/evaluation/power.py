"""What a gate can see, before a run is paid for: the smallest true gain that it is likely to find, if any."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from rlft.evaluation.gates import confidence_at
from rlft.evaluation.statistics import IMAGINED_OF_DIFFERENCE, SHARE, Range, bounds, common_tasks
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

    It is found if the lower bound of the paired difference (`statistics.paired_difference`, two-sided
    `confidence`) is above `minimum`. `discordance` is the share of groups on which the policies differ; a larger gain
    needs a larger one. The measured gain is taken as normal with the variance of a paired difference, `discordance -
    gain^2` a group (Connor 1987, Biometrics 43). In simulations with 20 groups and more the power is 0.76 to 0.95 where
    0.8 is asked for, and above 0.85 only with fewer than 100. `None` if no gain below 1 is found so often.
    """
    count, margin = int(groups), float(ndtri(power))

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
    squared: float,
    effective: float,
    metric: str,
    *,
    ends: Range | None = None,
    confidence: float = 0.95,
    power: float = POWER,
    minimum: float = 0.0,
) -> float | None:
    """Return the smallest true difference of two policies, in the metric, that is found at this `power`.

    It is found if the interval of the paired difference (two-sided `confidence`) lies above `minimum`. `squared` is the
    `squared_difference` of both policies, `effective` how many groups of equal size say as much as theirs, `ends` the
    range of the scores, from which the interval imagines groups; a share needs none. `None` if no difference is found
    so often, if there are fewer than two groups, or without a range. In simulations the power of a reward is 0.79 to
    0.82 where 0.8 is asked for, and down to 0.69 where rare large losses make the spread.
    """
    if metric == "accuracy":
        return smallest_gain(effective, confidence=confidence, discordance=squared, power=power, minimum=minimum)
    if ends is None:
        return None
    return smallest_mean(squared, effective, ends, confidence=confidence, power=power, minimum=minimum)


def smallest_mean(
    variance: float,
    effective: float,
    ends: Range,
    *,
    confidence: float = 0.95,
    power: float = POWER,
    minimum: float = 0.0,
) -> float | None:
    """Return the smallest true mean of differences that is found at this `power`; `None` if none is.

    `variance` is that of the differences between groups, `ends` the range of the scores of which they are differences.
    At a power of 0.5 it is the smallest mean that, where it is measured, has a lower bound above `minimum`.
    """
    count, width = int(effective), ends.high - ends.low
    if count < 2:
        return None

    def is_found(gain: float) -> bool:
        """Return whether the bound is above the minimum where the measured gain is one that 1 - `power` fall below."""
        spread = math.sqrt(max(0.0, min(variance, width**2 - gain**2)))
        measured = gain - spread * float(ndtri(power)) / math.sqrt(count)
        return float(lower_bounds(measured, spread, count, ends, confidence=confidence)) > minimum

    low, high = minimum, width
    if low >= high or not is_found(high):
        return None
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return high


def lower_bounds(
    means: ArrayLike, spreads: ArrayLike, groups: int, ends: Range, *, confidence: float = 0.95
) -> NDArray[np.float64]:
    """Return the lower bound of the interval of each of some measured means of differences [...].

    `spreads` [...] are the standard deviations of the differences between so many groups, at least two; half of them
    lie above the mean. `ends` is the range of the scores of which they are differences.
    """
    sides = np.resize([-1.0, 1.0], groups)
    sides = (sides - sides.mean()) / sides.std()
    values = np.asarray(means)[..., None] + np.asarray(spreads)[..., None] * sides
    imagined = IMAGINED_OF_DIFFERENCE
    low, _ = bounds(values, np.ones_like(values), ends.minus(ends), imagined=imagined, confidence=confidence)
    return low


def gate_sentence(
    tasks: int, groups: int, effective: float, *, metric: str, looks: int = 1, minimum: float = 0.0
) -> str:
    """Return in a sentence what a gate of so many tasks can see.

    `effective` is how many groups of equal size say as much (`statistics.effective_groups`), `looks` how many
    decisions share the chance of a false one (`gates.confidence_at`), `minimum` what the lower bound must
    exceed (`promotion.min_improvement`). Two models are taken to differ in accuracy on `DISCORDANCE` of the tasks; of a
    reward nothing is known before it was seen to spread.
    """
    begin = f"with {tasks} gate tasks" + (f" in {groups} groups" if groups != tasks else "")
    if effective < 0.9 * groups:
        begin += f" that count as {effective:.0f} of equal size"
    if metric != "accuracy":
        return f"{begin} it is not known which gains of the {metric} are found, as that depends on its spread"
    gain = smallest_gain(effective, confidence=confidence_at(looks), minimum=minimum)
    how = f" at the level for {looks} looks at one gate" if looks > 1 else ""
    if minimum:
        how += f", to exceed promotion.min_improvement ({minimum:g})"
    if gain is None:
        return f"{begin} no gain is found{how}"
    return f"{begin} gains above about {100 * gain:.2g} points over a rival are found four times out of five{how}"
