"""What `training.lag: 1` saves in time.

    python -m benchmarks.lag --json [--turns 2]

Runs of `tests/fixtures/configs/tiny.yaml` with a larger model and larger rounds, whose reward asks a server on
loopback. The server lets the attempts of a round wait for as long as a round is trained, as a few rounds without
waiting have shown. The learning rate is next to nothing: a policy that learns has rounds of other lengths, and the wait
is that of all. `wall` are the seconds from the beginning of the first sampling to the end of the last update, with
what ZenML takes. In each turn a run with lag 0 is followed by one with lag 1, and `ratio` is the median of the turns'
ratios of `wall`. `least` is what R rounds can come to: (R + 1) / 2R, as the first sampling and the last update have
nothing beside them. Both train with a core less than there are, which a lag needs for what goes on beside training.
What lag 1 costs in learning is the arm `lag_1` of `benchmarks.learning`.

Each run is a process with a home of its own. Progress goes to stderr; the last line of stdout is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from benchmarks.machine import describe
from mlops.home.folder import Home
from rlft.environments.reasoning_gym import ReasoningGym
from rlft.environments.workers.pool import cores_here
from rlft.types import Trajectory
from tests.rlft.engines.chat_servers import ChatServer

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "tests" / "fixtures" / "configs" / "tiny.yaml"
ADDRESS = "RLFT_BENCHMARK_SERVER"
ROUNDS = 20
TIMED = 4  # rounds that show how long one is trained
# Large enough that training is arithmetic, as it is of any model that is worth it: 30,000 parameters are all Python.
MODEL = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
OVERLAP = (
    *(f"policy.from_scratch.{name}={value}" for name, value in MODEL.items()),
    f"evaluation.validate_every={ROUNDS}",
    "training.tasks_per_round=32",
    "training.num_generations=8",
    "training.num_iterations=80",
    "training.learning_rate=1e-9",
    "environment.name=benchmarks.lag:Waiting",
    "reward.audit=false",
    "reward.timeout_seconds=60",
    "tracking.trace_every=0",
)
THREADS = {"OMP_NUM_THREADS": str(max(cores_here() - 1, 1))}  # a core is for what goes on beside training
log = Console(stderr=True, soft_wrap=True)
_GAP = 0.4  # seconds without a request after which the next one is of another round: sampling and steps take longer


class Waiting(ReasoningGym):
    """Asks a server before it scores, as an environment with a judge does."""

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        """Return the score of the generator's verifier, once the server has answered."""
        await asyncio.to_thread(_ask, os.environ[ADDRESS])
        return await super().compute_reward(completion, ground_truth)


def _ask(address: str) -> None:
    request = urllib.request.Request(f"{address}/chat/completions", b'{"messages": []}')
    with urllib.request.urlopen(request, timeout=60) as response:
        response.read()


class Waits:
    """Answers requests that follow each other closely `seconds` after the first of them."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._lock, self._began, self._last, self._open = threading.Lock(), 0.0, 0.0, 0

    def __call__(self, body: dict[str, Any], number: int) -> str:
        with self._lock:
            now = time.monotonic()
            if not self._open and now - self._last > _GAP:
                self._began = now
            self._open += 1
        time.sleep(max(0.0, self._began + self.seconds - now))
        with self._lock:
            self._open -= 1
            self._last = time.monotonic()
        return "1"


def run(config: Path, settings: Sequence[str], home: Path, address: str = "") -> dict[str, Any]:
    """Return the summary of a run in a new home. Raises RuntimeError if it fails."""
    home.mkdir(parents=True)
    (home / "configs").symlink_to(ROOT / "configs")  # paths in shipped configs are those of the repository
    words = [word for setting in settings for word in ("--set", setting)]
    summary = home / "summary.json"
    done = subprocess.run(
        [sys.executable, "-m", "cli", "run", str(config), *words, "--set", "controls=[]", "--summary", str(summary)],
        cwd=home,
        env={**os.environ, **THREADS, "PYTHONPATH": str(ROOT), ADDRESS: address},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{config} {' '.join(settings)}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    return json.loads(summary.read_text())


def wall_of_rounds(home: Path) -> float:
    """Return the seconds from the beginning of the first round to the end of the last update, by ZenML's database."""
    with closing(sqlite3.connect(Home(home / ".rlft").databases[0])) as database:
        (began,) = database.execute("SELECT start_time FROM step_run WHERE name = 'generate_rollouts_r000'").fetchone()
        (ended,) = database.execute("SELECT max(end_time) FROM step_run WHERE name LIKE 'train_grpo_r%'").fetchone()
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()


def overlap(folder: Path, turns: int) -> dict[str, Any]:
    """Return the wall seconds of rounds with lag 0 and 1 beside a server that takes as long as training."""
    with ChatServer(Waits(0.0)) as server:
        alone = run(CONFIG, [*OVERLAP, f"training.rounds={TIMED}"], folder / "alone", server.url)["seconds"]
    seconds = alone["train"] / TIMED
    log.print(f"a round is trained for {seconds:.2f} s")
    found = [turn(folder / str(number), seconds) for number in range(turns)]
    return {
        "rounds": ROUNDS,
        "threads": int(THREADS["OMP_NUM_THREADS"]),
        "waits": round(seconds, 3),
        "least": (ROUNDS + 1) / (2 * ROUNDS),
        "turns": found,
        "ratio": round(median(each["ratio"] for each in found), 3),
    }


def turn(folder: Path, seconds: float) -> dict[str, Any]:
    """Return what a run with lag 0 and one with lag 1 took beside a server that takes so many seconds for a round."""
    found: dict[str, Any] = {}
    for lag in (0, 1):
        home = folder / f"lag-{lag}"
        with ChatServer(Waits(seconds)) as server:
            settings = [f"training.rounds={ROUNDS}", f"training.lag={lag}"]
            summary = run(CONFIG, [*OVERLAP, *settings], home, server.url)
        work = {name: round(summary["seconds"][name], 2) for name in ("rollout", "score", "train")}
        found[f"lag_{lag}"] = {"wall": round(wall_of_rounds(home), 2), **work}
        log.print(found[f"lag_{lag}"])
    return {**found, "ratio": round(found["lag_1"]["wall"] / found["lag_0"]["wall"], 3)}


def main() -> None:
    """Run what is asked for, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object, which is the default too")
    parser.add_argument("--turns", type=int, default=2, help="how many pairs of runs")
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory(prefix="rlft-lag-") as folder:
        result = {
            "machine": describe("cpu", ["torch", "transformers", "zenml"]),
            "overlap": overlap(Path(folder), turns),
        }
    Console(soft_wrap=True).print_json(json.dumps(result), indent=None)


if __name__ == "__main__":
    main()
