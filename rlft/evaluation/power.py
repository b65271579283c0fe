"""What a gate can see, before a run is paid for: the smallest true gain that it is likely to find, if any."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from rlft.evaluation.gates import confidence_at
from rlft.evaluation.statistics import IMAGINED_OF_DIFFERENCE, SHARE, bounds

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
