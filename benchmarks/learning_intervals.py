"""Intervals of the learning benchmark: accuracies and paired differences over seeds and tasks.

Every run answers the same test tasks, so the runs of an arm form a table [seeds, tasks] of 0 and 1, and the tables of
two arms can be subtracted entry by entry. An interval is a percentile bootstrap in which seeds (rows) and tasks
(columns) are drawn again, each with replacement and independently (the pigeonhole bootstrap, Owen 2007,
doi:10.1214/07-AOAS122): it is about training again with other seeds and being asked other tasks of the same kind. All
arms share the same draws, so that a difference is paired by seed and by task.

What that means with three seeds: there are ten different ways to draw them, so that the interval is coarse; it never
reaches beyond what the best and the worst seed alone would give (up to the noise of the tasks); and the spread between
seeds counts as two thirds of what it is, as in any bootstrap of three. Beside it stands the interval over tasks alone,
of these seeds as they are. Where the two differ much, more seeds are needed before much is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
Scores = NDArray[np.float64]  # [seeds, tasks]
# Name in the result: the arm in question, and the one that is subtracted from it.
COMPARISONS = {
    "rlft_minus_trl": ("dapo", "trl"),
    "dr_grpo_minus_dapo": ("dr_grpo", "dapo"),
    "grpo_minus_dapo": ("grpo", "dapo"),
    "group_2_minus_16": ("group_2", "group_16"),
    "lag_1_minus_dapo": ("lag_1", "dapo"),
}


@dataclass(frozen=True, slots=True)
class Draws:
    """How often every resample drew each seed [resamples, seeds] and each task [resamples, tasks]."""

    seeds: Scores
    tasks: Scores


def draw(seeds: int, tasks: int, *, resamples: int = RESAMPLES, seed: int = 0) -> Draws:
    """As many seeds as there are and as many tasks as there are, with replacement."""
    generator = np.random.default_rng(seed)
    counts = [generator.multinomial(n, np.full(n, 1 / n), size=resamples) for n in (seeds, tasks)]
    return Draws(*(count.astype(np.float64) for count in counts))


def interval(scores: Scores, draws: Draws) -> dict[str, Any]:
    """The mean of a table or of a difference of two, with 95 % intervals.

    `low` and `high` are over seeds and tasks, `low_tasks` and `high_tasks` over tasks alone; `seeds` has the mean of
    each seed.
    """
    means = ((draws.seeds @ scores) * draws.tasks).sum(-1) / scores.size
    low, high = np.quantile(means, [0.025, 0.975])
    over_tasks = (draws.tasks * scores.mean(0)).sum(-1) / scores.shape[1]
    low_tasks, high_tasks = np.quantile(over_tasks, [0.025, 0.975])
    return {
        "mean": float(scores.mean()),
        "low": float(low),
        "high": float(high),
        "low_tasks": float(low_tasks),
        "high_tasks": float(high_tasks),
        "seeds": scores.mean(-1).tolist(),
    }


def read_scores(runs: list[dict[str, Any]]) -> dict[int, Scores]:
    """{round: table} of the runs of one arm, one per seed."""
    return {
        int(number): np.array([[float(digit) for digit in run["solved"][number]] for run in runs])
        for number in runs[0]["solved"]
    }


def summarize(runs: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Everything the benchmark says, from {arm: its runs, in the order of the seeds}. Shares of tasks, 0 to 1.

    Raises ValueError when the runs of two arms are not comparable: other seeds, other tasks, another beginning.
    """
    tables = {arm: read_scores(own) for arm, own in runs.items()}
    _check(runs, tables)
    first = next(iter(tables.values()))[0]
    draws = draw(*first.shape)
    before = {arm: table[0] for arm, table in tables.items()}
    after = {arm: table[max(table)] for arm, table in tables.items()}
    result: dict[str, Any] = {
        "arms": {
            arm: {
                "before": interval(before[arm], draws),
                "after": interval(after[arm], draws),
                "gain": interval(after[arm] - before[arm], draws),
                "curve": {number: interval(table, draws) for number, table in tables[arm].items()},
                "seconds": float(np.mean([run["seconds"] for run in runs[arm]])),
                "seconds_per_round": float(np.mean([run["seconds"] for run in runs[arm]])) / max(tables[arm]),
            }
            for arm in runs
        }
    }
    for name, (arm, other) in COMPARISONS.items():
        if arm in runs and other in runs:
            result[name] = interval(after[arm] - after[other], draws)
    if "random" in runs:
        result["random_gain"] = result["arms"]["random"]["gain"]
    return result


def _check(runs: Mapping[str, list[dict[str, Any]]], tables: Mapping[str, dict[int, Scores]]) -> None:
    first = next(iter(runs))
    for arm, own in runs.items():
        for name in ("seed", "tasks"):
            if [run[name] for run in own] != [run[name] for run in runs[first]]:
                raise ValueError(f"{arm} and {first} cannot be paired: they differ in `{name}`")
        if not np.array_equal(tables[arm][0], tables[first][0]):
            raise ValueError(f"{arm} and {first} began with different policies: their answers before training differ")
