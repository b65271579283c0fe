"""Counts the alarms of monitors in healthy runs and in runs whose reward is broken, and prints JSON.

    python -m benchmarks.monitors --json [--seeds 10]

There are six honest rewards with ten seeds each, six broken ones with three seeds each, and four more with three seeds
each that are aimed at one monitor (`aimed`: how often it was raised, and which others were). For each monitor it prints
`false` (healthy runs in which it was raised), `false_at_most` (the exact upper bound of that rate at 95 %, Clopper &
Pearson 1934), and `seen` (broken runs in which it was raised), by `broken` reward and of the `held_out` ones alone.
`warned` and `stopped` count runs with a warning, and with an alarm that ends training.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection
from typing import Any

from scipy import stats

from benchmarks.monitors.rewards import AIMED, BROKEN, HELD_OUT, HONEST
from benchmarks.monitors.runs import Watched, run, summary
from rlft.evaluation.diagnosis.monitors import MONITORS

FIRST_SEED = 100  # of the counted runs; seed 0 was looked at while the benchmark was written
AIMED_SEEDS = range(103, 106)  # those before were looked at while these cases were made


def most(count: int, of: int) -> float:
    """The largest rate with which so few would come about in 5 % of experiments."""
    return 1.0 if count == of else float(stats.beta.ppf(0.95, count + 1, of - count))


def measure(healthy: Collection[int], broken: Collection[int]) -> dict[str, Any]:
    """Run every reward with these seeds, and count."""
    good = {f"{name} {seed}": run(case, seed) for name, case in HONEST.items() for seed in healthy}
    bad = {(name, seed): run(case, seed) for name, case in BROKEN.items() for seed in broken}
    aimed = {name: [run(case, seed) for seed in AIMED_SEEDS] for name, (_, case) in AIMED.items()}
    return {
        "healthy": len(good),
        "broken": len(bad),
        "held_out": list(HELD_OUT),
        "monitors": {name: _counted(name, good, bad) for name in MONITORS},
        "aimed": {name: _aimed(AIMED[name][0], found) for name, found in aimed.items()},
        "any": {
            action: {
                "false": (count := sum(_acts(each, action) for each in good.values())),
                "false_at_most": round(most(count, len(good)), 3),
                "seen": sum(_acts(each, action) for each in bad.values()),
                "seen_held_out": sum(_acts(each, action) for (name, _), each in bad.items() if name in HELD_OUT),
            }
            for action in ("note", "warn", "stop")
        },
        "runs": {name: summary(each) for name, each in good.items()}
        | {f"{name} {seed}": summary(each) for (name, seed), each in bad.items()}
        | {
            f"{name} {seed}": summary(each)
            for name in aimed
            for seed, each in zip(AIMED_SEEDS, aimed[name], strict=True)
        },
    }


def _acts(found: Watched, action: str) -> bool:
    return any(alarm.action == action for alarm in found.alarms.values())


def _aimed(monitor: str, found: list[Watched]) -> dict[str, Any]:
    others = {name: sum(name in each.alarms for each in found) for name in MONITORS if name != monitor}
    return {
        "monitor": monitor,
        "runs": len(found),
        "seen": sum(monitor in each.alarms for each in found),
        "others": {name: count for name, count in others.items() if count},
    }


def _counted(monitor: str, good: dict[str, Watched], bad: dict[tuple[str, int], Watched]) -> dict[str, Any]:
    false = [name for name, each in good.items() if monitor in each.alarms]
    seen = {name: sum(monitor in each.alarms for (reward, _), each in bad.items() if reward == name) for name in BROKEN}
    return {
        "false": len(false),
        "false_at_most": round(most(len(false), len(good)), 3),
        "false_in": false,
        "seen": sum(seen.values()),
        "seen_held_out": sum(seen[name] for name in HELD_OUT),
        "by_reward": seen,
    }


def main() -> None:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="the only form there is")
    parser.add_argument("--seeds", type=int, default=10, help="seeds of each honest reward; broken ones have up to 3")
    seeds = range(FIRST_SEED, FIRST_SEED + parser.parse_args().seeds)
    sys.stdout.write(json.dumps(measure(seeds, seeds[:3]), indent=1) + "\n")


if __name__ == "__main__":
    main()
