"""What conversations cost beside their tools and their engine: 64 rollouts of 1 to 8 turns with a tool of 50 ms.

    python -m benchmarks.turns --json

Rollout n takes 1 + n mod 8 turns; every turn but the last calls the tool once. The engine says what is written for it,
and waits as long as sampling of small models takes: 20 ms a call and 0.2 ms a row. The floor is the longest chain (its
tool calls, one after the other) and the engine's own time, counted around its calls. `ratio` is wall time over this
floor, the median of some repeats; at most 1.3 is wanted. `one_by_one` is the same for rollouts played one after the
other, `lockstep` for turns that wait for all tools. `slow` has one rollout whose tool takes a second: `others_seconds`
is when all others were done. Last line: one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import string
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import rlft
from rlft.config import HarnessConfig
from rlft.engines.base import Generation, Sampling
from rlft.harness.attempt import Attempt
from rlft.harness.rollout import run_attempts
from rlft.models import Policy
from rlft.progress import Progress, silent
from rlft.types import Rollout, derive_seed
from tests.factories import make_policy, make_task

ROLLOUTS, TURNS = 64, 8
TOOL_SECONDS, SLOW_SECONDS = 0.05, 1.0
CALL_SECONDS, ROW_SECONDS = 0.02, 0.0002


class Waits(rlft.BaseEnv):
    """A tool that takes its time."""

    max_turns = TURNS

    @rlft.tool
    async def wait(self, seconds: float) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return "waited"

    @rlft.reward
    def done(self, text: str) -> float:
        """Said so."""
        return float(text == "done")


class Written:
    """An engine that says what is written, after the time that sampling would take."""

    def __init__(self, policy: Policy, turns: dict[int, int], seconds: dict[int, float]) -> None:
        encode = policy.tokenizer
        self.seconds, self.policy_hash, self.metrics = 0.0, "", {}
        self.said = {}
        for seed, count in turns.items():
            for turn in range(count):
                arguments = json.dumps({"name": "wait", "arguments": {"seconds": seconds.get(seed, TOOL_SECONDS)}})
                text = "done" if turn == count - 1 else f"<tool_call>{arguments}</tool_call>"
                key = derive_seed(seed, "turn", turn) if turn else seed
                self.said[key] = np.asarray([*encode(text).input_ids, encode.eos_token_id], dtype=np.int32)

    def load_policy(self, policy: Policy) -> None:
        """Nothing to load."""

    def close(self) -> None:
        """Nothing to give back."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        seeds: Sequence[int],
        progress: Progress = silent,
    ) -> list[Generation]:
        """What is written for each."""
        started = time.perf_counter()
        time.sleep(CALL_SECONDS + ROW_SECONDS * len(prompts))
        found = [Generation(self.said[s], np.zeros(len(self.said[s]), dtype=np.float32), "stop") for s in seeds]
        self.seconds += time.perf_counter() - started
        return found


def measure(
    policy: Policy, *, count: int = ROLLOUTS, slow: bool = False, batch: int | None = None, **limits: Any
) -> tuple[float, float, list[Rollout]]:
    """Wall and engine seconds, and the rollouts; `batch` rollouts at a time (all by default)."""
    turns = {seed: 1 + seed % TURNS for seed in range(count)}
    engine = Written(policy, turns, {1: SLOW_SECONDS} if slow else {})
    attempts = [Attempt(f"r{seed}", make_task(f"t{seed}"), 0, 0, seed) for seed in turns]
    started, rollouts = time.perf_counter(), list[Rollout]()
    for start in range(0, count, batch or count):
        rollouts += run_attempts(
            attempts[start : start + (batch or count)],
            Waits(),
            policy,
            engine,
            Sampling(1.0, 100),
            environment_fingerprint="",
            harness=HarnessConfig(**limits),
        )
    wall = time.perf_counter() - started
    assert all(rollout.messages[-1]["content"] == "done" for rollout in rollouts)
    assert [rollout.turns for rollout in rollouts] == list(turns.values())
    return wall, engine.seconds, rollouts


def compare(repeats: int) -> dict[str, Any]:
    """All ways, turn by turn."""
    policy = make_policy(characters=string.printable, max_position_embeddings=4096)
    chain = (TURNS - 1) * TOOL_SECONDS
    ways: dict[str, Callable[[], tuple[float, float, list[Rollout]]]] = {
        "together": lambda: measure(policy),
        "lockstep": lambda: measure(policy, lockstep=True),
        "one_by_one": lambda: measure(policy, batch=1),
        "slow": lambda: measure(policy, slow=True),
    }
    measure(policy)
    runs: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way, run in ways.items():
            wall, engine, rollouts = run()
            others = max(rollout.seconds for place, rollout in enumerate(rollouts) if place != 1)
            floor = engine + (chain if way != "slow" else max(chain, SLOW_SECONDS))
            runs[way].append({"wall": wall, "engine": engine, "ratio": wall / floor, "others_seconds": others})
    rows = [
        {"way": way, **{name: statistics.median(run[name] for run in found) for name in found[0]}}
        for way, found in runs.items()
    ]
    return {"ratio": rows[0]["ratio"], "chain_seconds": chain, "rows": rows, "repeats": repeats}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print the JSON line alone on stdout (always the last)")
    sys.stdout.write(json.dumps(compare(parser.parse_args().repeats)) + "\n")


if __name__ == "__main__":
    main()
