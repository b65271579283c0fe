"""How often the intervals hold the true mean, and how often a policy that is no better is promoted.

    python -m benchmarks.calibration --json [--simulations 20000]

Each cell draws evaluations of so many groups from a population whose mean is known, and asks `statistics` for the
95 % interval. `coverage` is the share of intervals that hold the mean, `above` that of those that lie above it (a gate
that asks whether the lower bound exceeds 0 promotes a policy that is no better as often), `width` the mean width, and
`plain_width` that of the interval by the normal approximation without imagined groups, or of Wilson's interval for
independent tasks that are right or wrong. The cells named `difference` and `loss` are differences of two policies of
which none is better: `worst_false_promotion` is over these. `weekly_false_promotion` is the share of series of 20 runs
on one gate, none of them better, in which at least one is promoted with `promotion.looks: 20`; the worst of some kinds
of tasks: 200 that are right or wrong, and 200 to 10,000 with small gains and rare losses. Last line: one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm
from scipy.stats import t as student

from rlft.evaluation.gates import confidence_at
from rlft.evaluation.statistics import IMAGINED, IMAGINED_OF_DIFFERENCE, SHARE, Range, bounds

Array = NDArray[np.float64]
GROUPS = (30, 100, 500)
SIMULATIONS = 20_000
LOOKS = 20
RARE = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.2)  # shares of tasks that are lost
AT_ONCE = 2_000_000  # values in memory
_DIFFERENCE = Range(-1.0, 1.0)


@dataclass(frozen=True)
class Population:
    """What evaluations are drawn from: `draw(generator, simulations, groups)` returns sums and sizes of groups.

    `null` says that it is the difference of two policies of which none is better.
    """

    name: str
    mean: float
    range: Range
    draw: Callable[[np.random.Generator, int, int], tuple[Array, Array]]
    null: bool = False
    binary: bool = False


def binary(rate: float) -> Population:
    """Tasks that are right with this probability, each a group of its own."""

    def draw(generator: np.random.Generator, simulations: int, groups: int) -> tuple[Array, Array]:
        return alone((generator.random((simulations, groups)) < rate).astype(np.float64))

    return Population(f"binary {rate:g}", rate, SHARE, draw, binary=True)


def difference(discordance: float, mean: float = 0.0) -> Population:
    """Differences of right and wrong: this share of tasks differs, so that the mean is `mean`."""

    def draw(generator: np.random.Generator, simulations: int, groups: int) -> tuple[Array, Array]:
        drawn = generator.random((simulations, groups))
        gained = (discordance + mean) / 2
        return alone(np.where(drawn < gained, 1.0, np.where(drawn < discordance, -1.0, 0.0)))

    name = f"difference {discordance:g}" + (f" of mean {mean:g}" if mean else "")
    return Population(name, mean, _DIFFERENCE, draw, null=mean == 0)


def beta(a: float, b: float) -> Population:
    """Scores from 0 to 1 of a beta distribution: skewed where `a` and `b` differ."""

    def draw(generator: np.random.Generator, simulations: int, groups: int) -> tuple[Array, Array]:
        return alone(generator.beta(a, b, (simulations, groups)))

    return Population(f"continuous beta({a:g}, {b:g})", a / (a + b), SHARE, draw)


def loss(rate: float, size: float) -> Population:
    """Differences that are small gains, but for rare losses of this size that outweigh them exactly."""

    def draw(generator: np.random.Generator, simulations: int, groups: int) -> tuple[Array, Array]:
        lost = generator.random((simulations, groups)) < rate
        return alone(np.where(lost, -size, size * rate / (1 - rate)))

    return Population(f"loss of {size:g} in {rate:g}", 0.0, _DIFFERENCE, draw, null=True)


def clustered(rate: float, correlation: float, size: int) -> Population:
    """Right and wrong answers in groups of 1 to 2 * size - 1 tasks, whose rates are of a beta distribution.

    `correlation` is that of two tasks of a group.
    """

    def draw(generator: np.random.Generator, simulations: int, groups: int) -> tuple[Array, Array]:
        sizes = generator.integers(1, 2 * size, (simulations, groups))
        rates = _rates(generator, rate, correlation, sizes.shape)
        return generator.binomial(sizes, rates).astype(np.float64), sizes.astype(np.float64)

    return Population(f"clustered {rate:g}, correlation {correlation:g}, {size} a group", rate, SHARE, draw)


def unequal(discordance: float, spread: float) -> Population:
    """Differences in groups of log-normal size (`spread` is that of the logarithm), each of which goes one way.

    With a `spread` of infinity one group has half of all tasks, and the others have one each.
    """

    def draw(generator: np.random.Generator, simulations: int, groups: int) -> tuple[Array, Array]:
        shape = (simulations, groups)
        if np.isinf(spread):
            sizes = np.ones(shape)
            sizes[:, 0] = groups - 1
        else:
            sizes = np.ceil(3 * np.exp(spread * generator.standard_normal(shape)))
        differ = generator.binomial(sizes.astype(np.int64), discordance)
        return differ * generator.choice([-1.0, 1.0], shape), sizes

    how = "one of half the tasks" if np.isinf(spread) else f"log-normal {spread:g}"
    return Population(f"difference {discordance:g}, unequal groups: {how}", 0.0, _DIFFERENCE, draw, null=True)


def clustered_difference(discordance: float, correlation: float, size: int) -> Population:
    """Differences in groups: this share of tasks differs, and who gains is correlated within a group."""

    def draw(generator: np.random.Generator, simulations: int, groups: int) -> tuple[Array, Array]:
        sizes = generator.integers(1, 2 * size, (simulations, groups))
        differ = generator.binomial(sizes, discordance)
        gained = generator.binomial(differ, _rates(generator, 0.5, correlation, sizes.shape))
        return (2.0 * gained - differ), sizes.astype(np.float64)

    name = f"clustered difference {discordance:g}, correlation {correlation:g}, {size} a group"
    return Population(name, 0.0, _DIFFERENCE, draw, null=True)


def alone(scores: Array) -> tuple[Array, Array]:
    """Return each task as a group of its own."""
    return scores, np.ones_like(scores)


def _rates(generator: np.random.Generator, rate: float, correlation: float, shape: tuple[int, ...]) -> Array:
    if correlation >= 1:
        return (generator.random(shape) < rate).astype(np.float64)
    total = (1 - correlation) / correlation
    return generator.beta(rate * total, (1 - rate) * total, shape)


POPULATIONS = (
    *(binary(rate) for rate in (0.03, 0.1, 0.5, 0.9, 0.97)),
    *(difference(share) for share in (0.02, 0.05, 0.1, 0.3, 0.6)),
    *(difference(share, mean) for share, mean in ((0.1, 0.08), (0.9, 0.85), (0.97, 0.97))),
    *(beta(a, b) for a, b in ((2, 2), (5, 1), (0.1, 1), (0.05, 0.5))),
    *(loss(rate, size) for rate, size in ((0.01, 1.0), (0.03, 1.0), (0.05, 1.0), (0.1, 1.0), (0.03, 0.5), (0.05, 0.3))),
    *(clustered(rate, c, n) for rate in (0.03, 0.1, 0.5, 0.97) for c, n in ((0.1, 5), (0.5, 20), (1.0, 5))),
    *(unequal(0.3, spread) for spread in (1.0, 2.0, float("inf"))),
    *(clustered_difference(share, c, n) for share, c, n in ((0.3, 0.3, 20), (0.5, 0.9, 5), (0.1, 0.1, 5))),
)


def measure(population: Population, groups: int, simulations: int, seed: int = 0) -> dict[str, Any]:
    """Return how the intervals of so many simulated evaluations do."""
    generator = np.random.default_rng([seed, groups])
    held = above = 0
    width = plain = 0.0
    done = 0
    while done < simulations:
        count = min(simulations - done, max(1, AT_ONCE // groups))
        sums, sizes = population.draw(generator, count, groups)
        imagined = IMAGINED if population.range == SHARE else IMAGINED_OF_DIFFERENCE
        low, high = bounds(sums, sizes, population.range, imagined=imagined)
        slack = 1e-12
        held += int(((low <= population.mean + slack) & (population.mean <= high + slack)).sum())
        above += int((low > population.mean + slack).sum())
        width += float((high - low).sum())
        plain += float(_plain_width(sums, sizes, population.binary).sum())
        done += count
    return {
        "population": population.name,
        "groups": groups,
        "coverage": held / simulations,
        "above": above / simulations,
        "width": width / simulations,
        "plain_width": plain / simulations,
    }


def weekly(rate: float, discordance: float, groups: int, size: int, series: int, seed: int = 0) -> float:
    """Return the share of series of 20 runs, none of them better, in which at least one passes the gate.

    All runs of a series meet the same model on the same tasks, which it solves at this rate; `discordance` of them come
    out otherwise for each run, whole groups of `size` tasks at once, so that its own rate is the same.
    """
    generator = np.random.default_rng([seed, groups, size, round(100 * rate), round(100 * discordance)])
    confidence, passed, done = confidence_at(LOOKS), 0, 0
    while done < series:
        count = min(series - done, max(1, AT_ONCE // (groups * LOOKS)))
        before = generator.random((count, 1, groups)) < rate
        changed = generator.random((count, LOOKS, groups)) < np.where(
            before, discordance / (2 * rate), discordance / (2 * (1 - rate))
        )
        differences = np.where(changed, np.where(before, -1.0, 1.0), 0.0) * size
        sizes = np.full_like(differences, size)
        low, _ = bounds(differences, sizes, _DIFFERENCE, imagined=IMAGINED_OF_DIFFERENCE, confidence=confidence)
        passed += int((low > 0).any(axis=1).sum())
        done += count
    return passed / series


def weekly_losses(rate: float, size: float, groups: int) -> float:
    """Return the chance that a series of 20 runs, none of them better, has one that passes the gate.

    The runs are independent, and tasks are small gains, but for rare losses of this size that outweigh them exactly. A
    run is its number of losses, which is binomial: nothing is drawn.
    """
    gain = size * rate / (1 - rate)
    confidence, passed = confidence_at(LOOKS), 0.0
    at_once = max(1, AT_ONCE // groups)
    # With more losses than expected the mean is below 0, and no lower bound is above it.
    for first in range(0, int(groups * rate) + 1, at_once):
        lost = np.arange(first, min(first + at_once, int(groups * rate) + 1))
        differences = np.where(np.arange(groups) < lost[:, None], -size, gain)
        low, _ = bounds(*alone(differences), _DIFFERENCE, imagined=IMAGINED_OF_DIFFERENCE, confidence=confidence)
        passed += float(binom.pmf(lost, groups, rate)[low > 0].sum())
    return 1 - (1 - passed) ** LOOKS


def all_weekly(series: int) -> dict[str, float]:
    """Return the share of series with a false promotion, by the kind of tasks."""
    kinds = [
        (rate, share)
        for rate in (0.1, 0.3, 0.5, 0.7, 0.9)
        for share in (0.05, 0.1, 0.3)
        if share <= 2 * rate * (1 - rate)
    ]
    found = {f"solved {rate:g}, {share:g} differ": weekly(rate, share, 200, 1, series) for rate, share in kinds}
    found["40 groups of 5"] = weekly(0.5, 0.3, 40, 5, series)
    for groups in (200, 500, 1000, 2000, 5000, 10_000):
        for rate, size in ((rate, size) for rate in RARE for size in (1.0, 0.5)):
            found[f"loss of {size:g} in {rate:g}, {groups} tasks"] = weekly_losses(rate, size, groups)
    return found


def _plain_width(sums: Array, sizes: Array, binary: bool) -> Array:
    """Return the width of Wilson's interval for independent right and wrong answers, else that of Student's."""
    count = sums.shape[-1]
    mean = sums.sum(-1) / sizes.sum(-1)
    if binary:
        z = norm.ppf(0.975)
        return 2 * z / (1 + z**2 / count) * np.sqrt(mean * (1 - mean) / count + z**2 / (4 * count**2))
    squares = ((sums - mean[:, None] * sizes) ** 2).sum(-1)
    return 2 * student.ppf(0.975, count - 1) * np.sqrt(squares * count / (count - 1)) / sizes.sum(-1)


def calibration(simulations: int, groups: tuple[int, ...] = GROUPS) -> dict[str, Any]:
    """Return all cells, with the worst of them."""
    cells = [measure(population, count, simulations) for population in POPULATIONS for count in groups]
    null = {population.name for population in POPULATIONS if population.null}
    series = all_weekly(max(1, simulations // 4))
    return {
        "simulations": simulations,
        "worst_coverage": min(cell["coverage"] for cell in cells),
        "worst_false_promotion": max(cell["above"] for cell in cells if cell["population"] in null),
        "weekly_false_promotion": max(series.values()),
        "series": series,
        "cells": cells,
    }


def main(arguments: list[str]) -> int:
    """Measure, and print the cells as lines, or everything as one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=SIMULATIONS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found = calibration(options.simulations)
    if options.json:
        sys.stdout.write(json.dumps(found) + "\n")
        return 0
    for cell in found["cells"]:
        ratio = cell["width"] / max(cell["plain_width"], 1e-9)
        sys.stdout.write(
            f"{cell['population']:48}{cell['groups']:5}{cell['coverage']:8.3f}{cell['above']:8.3f}{ratio:8.2f}\n"
        )
    sys.stdout.write(f"worst coverage {found['worst_coverage']:.3f}, ")
    sys.stdout.write(f"worst false promotion {found['worst_false_promotion']:.3f}, ")
    sys.stdout.write(f"weekly {found['weekly_false_promotion']:.3f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
