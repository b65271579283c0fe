"""Does it learn? Arms with the same rollout budget from the same warm start, several seeds, one picture.

    python -m benchmarks.learning --output FOLDER [--seeds 0 1 2] [--rounds N] [--arms dapo trl ...] [--jobs 2]

- `dapo` is the config as it is; `grpo` and `dr_grpo` (which does not scale rewards) differ in the loss alone.
- `trl` is TRL's GRPOTrainer with the settings of `dapo`: see `learning_trl.py` for what is the same and what is not.
- `random` is `dapo` with a fair coin for a reward: what it gains, no reward was needed for.
- `group_2` and `group_16` are `dapo` with groups of this size and as many rollouts a round (arXiv:2510.00977).
- `lag_1` is `dapo` with `training.lag: 1`: each round is sampled by the policy before the last round of training.

Every run is a process of its own with one thread, `--jobs` at a time, and leaves a file in FOLDER/runs: a call that was
interrupted goes on where it stopped. A run is repeated when its settings, rlft's code or a library have changed. What
the intervals mean is said in `learning_intervals.py`. The last line is one JSON object (shares of tasks, 0 to 1);
progress goes to stderr. FOLDER also gets summary.json, learning.png and learning.svg.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.learning_intervals import COMPARISONS, summarize
from benchmarks.learning_plot import LABELS, draw_picture
from benchmarks.learning_run import ARMS, WARM_START, arm_config, identity, result_file

ROOT = Path(__file__).resolve().parents[1]
Run = tuple[str, int]  # arm and seed
Wanted = dict[Run, str]  # with the identity that its result must have
Launch = Callable[[str, int], None]


def launcher(output: Path, config: Path, overrides: Sequence[str]) -> Launch:
    """Runs an arm with a seed in a child process; raises RuntimeError that names its log when it fails."""
    logs = output / "logs"
    logs.mkdir(parents=True, exist_ok=True)

    def launch(arm: str, seed: int) -> None:
        command = [sys.executable, "-m", "benchmarks.learning_run", "--arm", arm, "--seed", str(seed)]
        command += ["--output", str(output), "--config", str(config)]
        command += [part for override in overrides for part in ("--set", override)]
        log = logs / f"{arm}-seed{seed}.txt"
        with log.open("w") as out:
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT)
        if done.returncode:
            raise RuntimeError(f"{arm}, seed {seed}: exit status {done.returncode}, see {log}")

    return launch


def run_missing(output: Path, wanted: Wanted, jobs: int, launch: Launch) -> None:
    """Warm starts first, then every run without a result; the long ones begin first, so that no core waits."""
    log = Console(stderr=True)
    missing = [run for run, mark in wanted.items() if not _is_done(result_file(output, *run), mark)]
    missing.sort(key=lambda run: run[0] != "trl")
    log.print(f"{len(missing)} of {len(wanted)} runs to do")

    def run(job: Run) -> None:
        started = time.perf_counter()
        launch(*job)
        log.print(f"{job[0]}, seed {job[1]}: {time.perf_counter() - started:.0f} s")

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run, [(WARM_START, seed) for seed in sorted({seed for _, seed in missing})]))
        list(pool.map(run, missing))


def _is_done(file: Path, mark: str) -> bool:
    return file.is_file() and json.loads(file.read_text())["identity"] == mark


def read_runs(output: Path, wanted: Wanted) -> dict[str, list[dict[str, Any]]]:
    """{arm: results in the order of the seeds}. Raises RuntimeError when code changed while the runs were made."""
    runs: dict[str, list[dict[str, Any]]] = {}
    changed = []
    for (arm, seed), mark in wanted.items():
        result = json.loads(result_file(output, arm, seed).read_text())
        runs.setdefault(arm, []).append(result)
        if result["identity"] != mark:
            changed.append(f"{arm} seed {seed}")
    if changed:
        raise RuntimeError(f"settings or code changed meanwhile: call again to repeat {', '.join(changed)}")
    return runs


def make_table(summary: dict[str, Any]) -> Table:
    """Accuracies in per cent, differences in points, each with its 95 % interval."""
    table = Table(title=f"{summary['rounds']} rounds, seeds {summary['seeds']}, {summary['tasks']} test tasks")
    for column in ("", "before", "after", "difference", "over tasks alone", "s a round"):
        table.add_column(column, justify="left" if not column else "right")

    def show(report: dict[str, Any], low: str = "low", high: str = "high", sign: str = "") -> str:
        return f"{100 * report['mean']:{sign}.1f} ({100 * report[low]:{sign}.1f} to {100 * report[high]:{sign}.1f})"

    for arm, report in summary["arms"].items():
        gain, alone = (
            show(report["gain"], *names, sign="+") for names in (("low", "high"), ("low_tasks", "high_tasks"))
        )
        speed = f"{report['seconds_per_round']:.2f}"
        table.add_row(arm, show(report["before"]), show(report["after"]), gain, alone, speed)
    table.add_section()
    for name in (*COMPARISONS, "random_gain"):
        if name in summary:
            shown = [show(summary[name], *names, sign="+") for names in (("low", "high"), ("low_tasks", "high_tasks"))]
            table.add_row(LABELS[name].replace("\n", " "), "", "", *shown, "")
    return table


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder of results; made, or gone on with")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, help="default: the config's")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time; no more than cores")
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "sums.yaml")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--json", action="store_true", help="print the JSON line alone on stdout (always the last)")
    given = parser.parse_args()
    output, config = given.output.resolve(), given.config.resolve()
    overrides = [*given.overrides, *([f"training.rounds={given.rounds}"] if given.rounds else [])]
    configs = {(arm, seed): arm_config(config, overrides, arm, seed) for arm in given.arms for seed in given.seeds}
    wanted = {(arm, seed): identity(own, arm) for (arm, seed), own in configs.items()}
    started = time.perf_counter()
    run_missing(output, wanted, given.jobs, launcher(output, config, overrides))
    runs = read_runs(output, wanted)
    rounds = next(iter(configs.values())).training.rounds
    facts = {"seeds": given.seeds, "rounds": rounds, "tasks": len(runs[given.arms[0]][0]["tasks"]), "jobs": given.jobs}
    summary = {**facts, "call_seconds": time.perf_counter() - started, **summarize(runs)}
    draw_picture(summary, output)
    (output / "summary.json").write_text(json.dumps(summary, indent=1))
    if not given.json:
        Console(width=140).print(make_table(summary))
    sys.stdout.write(json.dumps(summary) + "\n")


if __name__ == "__main__":
    main()
