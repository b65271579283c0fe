"""Measures how long many slow scores take side by side: 512 rollouts of a reward of 100 ms.

    python -m benchmarks.reward_concurrency > result.json

Prints JSON: for coroutines, threads and worker processes the seconds, and their ratio to the least there could be,
which is rollouts x seconds of one / concurrency. Worker processes are measured as they start, which they do once in a
run, and once more when they have.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time

import rlft
from rlft.config import RewardConfig
from rlft.config.environment import Isolation
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.loading import load_environment
from rlft.rewards.scoring import score_rollouts
from tests.rlft.attempts import answered, make_task

TASK = make_task("t", "2+2=", "4")


class Plain(rlft.BaseEnv):
    """Takes its time without awaiting."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def compute_reward(self, completion, ground_truth):
        time.sleep(self.seconds)
        return {"right": completion.text == ground_truth}


class Awaited(Plain):
    """Takes its time as a request does."""

    async def compute_reward(self, completion, ground_truth):
        await asyncio.sleep(self.seconds)
        return {"right": completion.text == ground_truth}


def measure(environment: BaseEnv, rollouts: int, concurrency: int, isolation: Isolation) -> float:
    """Return the seconds that so many scores take. Raises AssertionError if one of them is wrong."""
    started = time.perf_counter()
    rewards = score_rollouts(
        answered(TASK, *("4" if number % 2 else "5" for number in range(rollouts))),
        {TASK.id: TASK},
        environment,
        RewardConfig(timeout_seconds=60.0, isolation=isolation, concurrency=concurrency),
    )
    seconds = time.perf_counter() - started
    assert [row.total for row in rewards.rows] == [float(number % 2) for number in range(rollouts)]
    return seconds


def compare(rollouts: int, seconds: float, concurrency: int) -> dict[str, dict[str, float]]:
    """Return {how: {seconds, ratio}}; for worker processes the first use, in which they start, is apart."""
    least = rollouts * seconds / concurrency
    measured: dict[str, float] = {}
    for name, kind in (("async", "Awaited"), ("threads", "Plain")):
        environment = load_environment(
            f"{__name__ if __name__ != '__main__' else __spec__.name}:{kind}", {"seconds": seconds}
        )
        measured[name] = measure(environment, rollouts, concurrency, "thread")
        measured[f"{name}, first use of processes"] = measure(environment, rollouts, concurrency, "process")
        measured[f"{name}, processes"] = measure(environment, rollouts, concurrency, "process")
    return {name: {"seconds": round(each, 3), "ratio": round(each / least, 3)} for name, each in measured.items()}


def main() -> None:
    """Measure, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--concurrency", type=int, default=8)
    asked = parser.parse_args()
    found = {"rollouts": asked.rollouts, "seconds": asked.seconds, "concurrency": asked.concurrency}
    sys.stdout.write(json.dumps({**found, "took": compare(**found)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
