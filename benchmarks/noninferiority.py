"""How often a model that loses is promoted, how often slices block one that does not, and what both can see.

    python -m benchmarks.noninferiority --json [--simulations 4000]

`suites`: on so many groups of tasks a policy loses exactly the margin (`false`: the share that `comparison`
would pass; 0.025 may be at one look, 0.0025 at one of 20) or nothing (`power`). `slices`: 2 to 12 slices in which
nothing is lost (`false_block`: the share of decisions in which any is called worse; 0.05 may be), and how often the one
slice that loses exactly the margin is called `worse`. Rates near 0 and 1 and groups of unequal size are among the
populations. Last line: one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlft.evaluation.comparison import FAMILY
from rlft.evaluation.gates import confidence_at
from rlft.evaluation.power import MIN_GROUPS
from rlft.evaluation.statistics import IMAGINED_OF_DIFFERENCE, Range, bounds, effective_groups

Array = NDArray[np.float64]
_DIFFERENCE = Range(-1.0, 1.0)
GROUPS = (20, 50, 200, 1000)
SIMULATIONS = 4000
AT_ONCE = 2_000_000  # values in memory


def paired(
    generator: np.random.Generator, shape: tuple[int, ...], rate: float, loss: float, churn: float
) -> tuple[Array, Array]:
    """Return differences of right and wrong and their sizes, 1 each: the rival solves this share of the tasks.

    Ours solves `loss` less. Beyond what that takes, `churn` of the tasks are gained and as many lost, if there are.
    """
    before = generator.random(shape) < rate
    gained = min(churn, 1 - rate, rate - loss)
    lost = np.where(before, (loss + gained) / rate, 0.0)
    found = np.where(before, 0.0, gained / (1 - rate))
    drawn = generator.random(shape)
    differences = np.where(before, -(drawn < lost).astype(np.float64), (drawn < found).astype(np.float64))
    return differences, np.ones(shape)


def unequal(
    generator: np.random.Generator, shape: tuple[int, ...], rate: float, loss: float, churn: float
) -> tuple[Array, Array]:
    """Return sums and sizes of groups of 1 to some 30 tasks (log-normal), in which gains and losses go together."""
    sizes = np.ceil(3 * np.exp(generator.standard_normal(shape)))
    whole, _ = paired(generator, shape, rate, loss, churn)
    alone = generator.random(shape) < 0.5  # in half of the groups all tasks go one way, in the others each its own
    gained = min(churn, 1 - rate, rate - loss)
    count = sizes.astype(np.int64)
    lost = generator.binomial(count, loss + gained)
    won = generator.binomial(count - lost, gained / (1 - loss - gained))
    return np.where(alone, won - lost, whole * sizes), sizes


POPULATIONS = {"tasks": paired, "unequal groups": unequal}


def suite_cells(simulations: int, groups: tuple[int, ...] = GROUPS) -> Iterator[dict[str, Any]]:
    """Yield how often a loss of exactly the margin, and one of nothing, passes."""
    for kind, draw in POPULATIONS.items():
        for count in groups:
            for rate, margin in ((0.05, 0.02), (0.5, 0.02), (0.5, 0.05), (0.5, 0.1), (0.95, 0.05), (0.98, 0.02)):
                for churn in (0.0, 0.05, 0.2):
                    cell: dict[str, Any] = {"population": kind, "groups": count, "rate": rate, "margin": margin}
                    generator = np.random.default_rng([count, round(1000 * rate), round(1000 * margin)])
                    for name, loss in (("false", margin), ("power", 0.0)):
                        passed = _passed(generator, draw, (simulations, count), rate, loss, churn, margin)
                        cell |= {f"{name}_{looks}": share for looks, share in passed.items()}
                    yield cell | {"churn": churn}


def _passed(
    generator: np.random.Generator,
    draw: Any,
    shape: tuple[int, int],
    rate: float,
    loss: float,
    churn: float,
    margin: float,
) -> dict[int, float]:
    """Return by the number of looks the share of simulations that are passed."""
    passed, done = {1: 0, 20: 0}, 0
    while done < shape[0]:
        count = min(shape[0] - done, max(1, AT_ONCE // shape[1]))
        sums, sizes = draw(generator, (count, shape[1]), rate, loss, churn)
        enough = effective_groups(sizes) >= MIN_GROUPS
        for looks in passed:
            low, _ = bounds(sums, sizes, _DIFFERENCE, imagined=IMAGINED_OF_DIFFERENCE, confidence=confidence_at(looks))
            passed[looks] += int((enough & (low > -margin)).sum())
        done += count
    return {looks: count / shape[0] for looks, count in passed.items()}


def holm(sums: list[Array], sizes: list[Array], family: float = FAMILY) -> NDArray[np.bool_]:
    """Return which slices are worse, [simulations, slices].

    It is what `rlft.evaluation.comparison.compare_slices` does, for many simulations at once.
    """
    tested = np.stack([effective_groups(each) >= MIN_GROUPS for each in sizes], -1)
    total = len(sums)
    below = {
        left: np.stack(
            [
                bounds(s, n, _DIFFERENCE, imagined=IMAGINED_OF_DIFFERENCE, confidence=1 - 2 * family / left)[1] < 0
                for s, n in zip(sums, sizes, strict=True)
            ],
            -1,
        )
        for left in range(1, total + 1)
    }
    worse = np.zeros_like(tested)
    for _ in range(total):
        left = np.maximum((tested & ~worse).sum(-1), 1)
        shown = np.select([(left == each)[:, None] for each in below], list(below.values()))
        worse = worse | (tested & shown)
    return worse


def slice_cells(simulations: int) -> Iterator[dict[str, Any]]:
    """Yield how often slices block where nothing is lost, and what is said of one that loses exactly the margin."""
    for kind, draw in POPULATIONS.items():
        for slices, groups in ((2, 20), (2, 100), (5, 20), (5, 50), (5, 200), (12, 30), (12, 100)):
            for rate, churn in ((0.05, 0.03), (0.5, 0.05), (0.5, 0.2), (0.95, 0.03)):
                generator = np.random.default_rng([slices, groups, round(100 * rate), round(100 * churn)])
                drawn = [draw(generator, (simulations, groups), rate, 0.0, churn) for _ in range(slices)]
                none = holm([sums for sums, _ in drawn], [sizes for _, sizes in drawn])
                cell = {"population": kind, "slices": slices, "groups": groups, "rate": rate, "churn": churn}
                cell["false_block"] = float(none.any(-1).mean())
                for margin in (0.05, 0.1, 0.2):
                    if margin <= rate:
                        lost = [draw(generator, (simulations, groups), rate, margin, churn), *drawn[1:]]
                        worse = holm([sums for sums, _ in lost], [sizes for _, sizes in lost])
                        yield cell | {"margin": margin, "worse": float(worse[:, 0].mean())}


def measured(simulations: int, groups: tuple[int, ...] = GROUPS) -> dict[str, Any]:
    """Return all cells, with the worst of them."""
    suites, slices = list(suite_cells(simulations, groups)), list(slice_cells(max(1, simulations // 2)))
    return {
        "simulations": simulations,
        "worst_false_at_1_look": max(cell["false_1"] for cell in suites),
        "worst_false_at_20_looks": max(cell["false_20"] for cell in suites),
        "worst_false_block": max(cell["false_block"] for cell in slices),
        "suites": suites,
        "slices": slices,
    }


def main(arguments: list[str]) -> int:
    """Measure, and print the cells as lines, or everything as one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=SIMULATIONS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found = measured(options.simulations)
    if not options.json:
        for cell in [*found["suites"], *found["slices"]]:
            sys.stdout.write("  ".join(f"{key} {value}" for key, value in cell.items()) + "\n")
        found = {key: value for key, value in found.items() if key.startswith("worst")}
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
