"""Processes that end where they must not: killed, told to end, left by their terminal, ended by the user's own code."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path

from benchmarks.faults.scene import Fault, Scene, Seen
from tests.e2e.conftest import TINY, Home, Result, fork_server
from tests.e2e.fork_server import Forked

KILLS = (
    "steps.tasks:ingest:1",
    "steps.policies:run_sft:1",
    "steps.round:collect_rollouts:4",
    "steps.round:score_rollouts:3",
    "rlft.training.job:train_round:3",
    "rlft.evaluation.searches.sft:train_sft:1",
    "steps.evaluation:evaluate_rollouts:4",
    "steps.promotion:register_policy_version:1",
)
SIGNALS = {"SIGTERM": signal.SIGTERM, "SIGHUP": signal.SIGHUP, "SIGINT": signal.SIGINT}
DEATHS = {
    "os._exit(0)": "import os; os._exit(0)",
    "abort": "import os; os.abort()",
    "segmentation fault": "import ctypes; ctypes.string_at(0)",
    "sys.exit(0)": "import sys; sys.exit(0)",
}
ENVIRONMENT = """
import rlft


class Deadly(rlft.BaseEnv):
    async def compute_reward(self, completion, ground_truth):
        if ground_truth in ("2", "3") and "1" in completion.text:  # some attempts, and never eight in a row
            {death}
        return {{"correct": float(completion.text.strip() == ground_truth)}}
"""


def started(home: Home, *arguments: str) -> tuple[int, Path, Forked]:
    """Start a command in a process of its own; returns its number, where it writes, and what waits for it."""
    said = home.folder / "said"
    with said.open("w") as output, open(os.devnull) as nothing:
        files = nothing.fileno(), output.fileno(), output.fileno()
        process = fork_server().start("tests.e2e.driver", ["-", *arguments], home.folder, home.environment(), files)
    return process.pid, said, process


def when(home: Home, pattern: str, count: int, pid: int, seconds: float = 300) -> None:
    """Wait until so many files are in a home's store, or its process has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and Path(f"/proc/{pid}").exists():
        if len(list((home.folder / ".rlft" / "zenml").rglob(pattern))) >= count:
            return
        time.sleep(0.02)


def _killed(scene: Scene, place: str) -> Seen:
    home = scene.empty()
    killed = home.rlft("run", str(TINY), kill_at=place)
    if killed.code != -9:
        raise RuntimeError(f"the run was not killed at {place}: {killed.output}")
    return Seen(home, scene.follow(home, home.rlft("resume", home.only_attempt())))


def _signalled(scene: Scene, number: signal.Signals, stored: int) -> Seen:
    home = scene.empty()
    pid, said, process = started(home, "run", str(TINY))
    when(home, "*.parquet", stored, pid)
    os.kill(pid, number)
    code = process.wait(120)
    first = Result(code, said.read_text(), None)
    return Seen(home, scene.follow(home, first), must_name="rlft resume")


def _ended_by_the_reward(scene: Scene, death: str, options: tuple[str, ...]) -> Seen:
    home = scene.empty()
    (home.folder / "deadly.py").write_text(ENVIRONMENT.format(death=death))
    own = ("--set", "environment.name=deadly:Deadly", "--set", "reward.audit=false", *options)
    _, said, process = started(home, "run", str(TINY), *own)
    code = process.wait(300)
    first = Result(code, said.read_text(), None)
    if code < 0 or (code != 0 and "rlft resume" not in first.output):  # it could say nothing: the next start does
        first = Result(code or 1, home.rlft("doctor").output, None)
    return Seen(home, [first], must_name=None if options else "compute_reward", policies=False)


def faults() -> list[Fault]:
    """Return kills, signals early and late, and the deaths that a reward can bring about, in the process and apart."""
    made = [Fault("processes", f"killed in {place}", partial(_killed, place=place)) for place in KILLS]
    for name, number in SIGNALS.items():
        for stored in (1, 9):
            cause = partial(_signalled, number=number, stored=stored)
            made.append(Fault("processes", f"{name} after {stored} tables", cause))
    for name, death in DEATHS.items():
        for where, options in (("", ()), (" in a worker", ("--set", "reward.isolation=process"))):
            cause = partial(_ended_by_the_reward, death=death, options=options)
            made.append(Fault("processes", f"{name} in a reward{where}", cause))
    return made
