"""What a command costs before it does anything: processor and wall seconds, the least of several calls.

    python -m benchmarks.start_up --json [--repeats 5] [--run NAME [--stack STACK]]

Each call is a process in an empty folder with a ZenML and a home of its own. `--run` names a finished run of the home
in the working directory and adds `show`, there. The last line is one JSON object; progress goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.machine import describe

ROOT = Path(__file__).resolve().parents[1]
TINY = str(ROOT / "tests" / "fixtures" / "configs" / "tiny.yaml")
COMMANDS = {
    "--help": ["--help"],
    "doctor": ["doctor"],
    "ui, with nothing to show": ["ui"],
    "run, refused": ["run", TINY, "--set", "rollout.engine=vllm_server", "--set", "environment.name=nowhere:Thing",
                     "--set", "rollout.server.addresses=[http://127.0.0.1:9]"],
    "stack": ["stack", str(ROOT / "configs" / "stacks" / "local.yaml")],
}  # fmt: skip


def measure(arguments: list[str], folder: Path, environment: dict[str, str]) -> dict[str, float]:
    """Seconds of one call: `cpu` of the process and all that it starts, and `wall`."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "cli", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 2), done.stderr
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu": round(cpu, 2), "wall": round(wall, 2)}


def main() -> None:
    """Measure each command and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="the output is JSON anyway")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--run")
    parser.add_argument("--stack")
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        empty = {name: value for name, value in own.items() if not name.startswith(("ZENML_", "MLFLOW_", "RLFT_"))}
        empty |= {"HOME": folder, "ZENML_CONFIG_PATH": f"{folder}/zenml", "ZENML_ANALYTICS_OPT_IN": "false"}
        calls = [(name, arguments, Path(folder), empty) for name, arguments in COMMANDS.items()]
        if options.run:
            stack = ["--stack", options.stack] if options.stack else []
            calls.append(("show", ["show", options.run, "baseline", *stack], Path.cwd(), own))
        for name, arguments, place, environment in calls:
            measure(arguments, place, environment)  # the first one writes .pyc files and databases
            each = [measure(arguments, place, environment) for _ in range(options.repeats)]
            found[name] = {kind: min(one[kind] for one in each) for kind in ("cpu", "wall")}
            sys.stderr.write(f"{name}: {found[name]}\n")
    sys.stdout.write(json.dumps({"seconds": found, "machine": describe("cpu", ["zenml", "mlflow", "torch"])}) + "\n")


if __name__ == "__main__":
    main()
