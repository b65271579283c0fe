"""How a step's time and the disk grow with the rounds of a run and with the runs in a home.

    python -m benchmarks.home_growth --rounds 200 --runs 100 --json

The tiny configuration runs once with many rounds: `rounds` has, by tenths of the run, the median of a round's seconds
in the pipeline beside its work (`perf/orchestration_seconds`) and of its whole. Then short runs fill one home, each
with a seed of its own, so that none takes a step from the cache; every fifth is followed by an equal run in an empty
home. `runs` has, by what the home held before, the processor's seconds of both and their ratio, and the home's bytes
(a file with several names counts once). `too_hard` counts the runs that solved nothing from the start, and ended there.
`commands` has those of `rlft show`, `doctor` and `runs` in the full home.
Seconds of the processor are counted, and not the clock's, because what else the machine does hardly changes them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.e2e.conftest import TINY, Home, Prepared, fork_server

SHORT = ("training.rounds=1", "controls=[]", "warm_start.steps=100")
EVERY = 5  # every fifth run is compared with one in an empty home
TOO_HARD = 3  # the exit code


def command(home: Home, *arguments: str, allowed: Sequence[int] = (0,)) -> tuple[float, int]:
    """Run a command; returns the processor's seconds that it took, and its exit code."""
    said = home.folder / "said"
    with said.open("w") as output, open(os.devnull) as nothing:
        files = nothing.fileno(), output.fileno(), output.fileno()
        process = fork_server().start("tests.e2e.driver", ["-", *arguments], home.folder, home.environment(), files)
    code = process.wait(7200)
    if code not in allowed:
        raise RuntimeError(f"`rlft {' '.join(arguments)}` failed:\n{said.read_text()}")
    return process.cpu_seconds, code


def disk(home: Home) -> int:
    """Return the bytes on the disk of a home; hard links of one file count once."""
    found = [file.lstat() for file in (home.folder / ".rlft").rglob("*") if not file.is_dir()]
    return sum({entry.st_ino: entry.st_blocks * 512 for entry in found}.values())


def many_rounds(home: Home, rounds: int) -> list[dict[str, float]]:
    """Run once; returns a row for each tenth of the rounds."""
    options = ("training.max_kl=1000", "controls=[]", f"training.rounds={rounds}")
    command(home, "run", str(TINY), *sets(*options))
    values: dict[str, list[float]] = {}
    for name in ("orchestration", "rollout", "score", "train"):
        found = home.query(f"""
runs = mlflow_client.search_runs([mlflow_client.get_experiment_by_name("tiny").experiment_id])
history = mlflow_client.get_metric_history(runs[0].info.run_id, "perf/{name}_seconds")
print(json.dumps([metric.value for metric in sorted(history, key=lambda metric: metric.step)]))
""")
        values[name] = found
    whole = [sum(each) for each in zip(*values.values(), strict=True)]
    tenth = max(1, len(whole) // 10)
    return [
        {
            "rounds": begin + tenth,
            "beside_seconds": round(statistics.median(values["orchestration"][begin : begin + tenth]), 4),
            "round_seconds": round(statistics.median(whole[begin : begin + tenth]), 4),
        }
        for begin in range(0, len(whole) - tenth + 1, tenth)
    ]


def many_runs(home: Home, runs: int, empty: Prepared) -> tuple[list[dict[str, float]], int]:
    """Fill a home; returns a row for every fifth run, and how many ended too hard."""
    rows, too_hard = [], 0
    for number in range(runs):
        options = sets(*SHORT, f"seed={number}")
        before = disk(home)
        seconds, code = command(home, "run", str(TINY), *options, allowed=(0, TOO_HARD))
        too_hard += code == TOO_HARD
        if number % EVERY == 0 or number == runs - 1:
            alone, _ = command(empty.copy(), "run", str(TINY), *options, allowed=(code,))
            rows.append(
                {
                    "runs": number,
                    "cpu_seconds": round(seconds, 2),
                    "empty_cpu_seconds": round(alone, 2),
                    "ratio": round(seconds / alone, 3),
                    "megabytes": round(before / 1e6, 1),
                }
            )
            sys.stderr.write(f"{rows[-1]}\n")
    return rows, too_hard


def sets(*settings: str) -> list[str]:
    """Return the options of the command line that set these."""
    return [word for setting in settings for word in ("--set", setting)]


def main(arguments: list[str]) -> int:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--json", action="store_true", help="print one JSON object; there is no other form")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="rlft-growth-") as temporary:
        empty = Prepared(Path(temporary) / "empty")
        found: dict[str, Any] = {"rounds": [], "runs": [], "commands": {}}
        if options.rounds:
            home = empty.copy()
            found["rounds"] = many_rounds(home, options.rounds)
            found["megabytes_after_rounds"] = round(disk(home) / 1e6, 1)
        home = empty.copy()
        found["runs"], found["too_hard"] = many_runs(home, options.runs, empty)
        (newest, *_) = home.query("print(json.dumps([r.name for r in client.list_pipeline_runs(size=1)]))")
        for words in (("show", newest, "0"), ("doctor",), ("runs",)):
            found["commands"][words[0]] = round(command(home, *words)[0], 2)
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
