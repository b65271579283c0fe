"""Everything that needs a GPU to be measured, in the order of its worth, within a budget of time.

    python -m benchmarks.gpu [--out .rlft/bench-gpu] [--budget 540] [--only step] [--rehearse]

Each part is a process of its own with its own limit of time. What a part lacks (vLLM, a second GPU) is named; a part
that fails is listed with the last line of its error, one that no longer fits into the budget as not run; the others go
on. Results go to `results.jsonl` as they come, and after each part `table.md` is written anew: machine, date and
figures, ready for docs/performance.md. `--rehearse` runs all of it with tiny sizes on a CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.parts import HERE, ON_GPU, REHEARSAL, Part, Sizes, make_parts, missing
from benchmarks.gpu.table import to_markdown

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("torch", "transformers", "peft", "trl", "vllm", "liger_kernel")
WRITING_SECONDS = 120.0  # of the model


def run_parts(sizes: Sizes, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every part's record, written as it comes."""
    until = time.monotonic() + options.budget
    options.out.mkdir(parents=True, exist_ok=True)
    machine = describe_machine(rehearsal=options.rehearse)
    records: list[dict[str, Any]] = []
    absent = missing() | ({"a GPU"} if sizes.device == "cpu" else set())
    with tempfile.TemporaryDirectory() as place, (options.out / "results.jsonl").open("a") as results:
        results.write(json.dumps({"machine": machine, "sizes": asdict(sizes)}) + "\n")
        # Tiny models are written by each part itself, which costs less than one more process.
        own = sizes.device == "cpu"
        for part in make_parts(sizes, None) if own else [_model(sizes, Path(place)), *make_parts(sizes, Path(place))]:
            if part.kind != "model" and not any(words in part.name for words in options.only):
                continue
            record = run_part(part, absent, until - time.monotonic(), sizes.threads)
            sys.stderr.write(f"{record['state']}: {part.name} {record.get('reason', '')} ({record['seconds']:.0f} s)\n")
            if part.kind == "model" and record["state"] == "measured":
                continue
            records.append(record)
            results.write(json.dumps(record) + "\n")
            results.flush()
            (options.out / "table.md").write_text(to_markdown(machine, records))
    return records


def run_part(part: Part, absent: set[str], left: float, threads: int) -> dict[str, Any]:
    """What came of it: measured, lacking, not run or failed."""
    record: dict[str, Any] = {"part": part.name, "kind": part.kind, "seconds": 0.0}
    if lacks := [need for need in part.needs if need in absent]:
        return record | {"state": "lacking", "reason": f"it needs {' and '.join(lacks)}"}
    if left < part.seconds:
        reason = f"it may take {part.seconds:.0f} s, and {max(left, 0):.0f} s are left"
        return record | {"state": "not run", "reason": reason}
    started = time.monotonic()
    try:
        result = call(part.command, part.seconds, threads)
    except PartFailed as cause:
        return record | {"state": "failed", "reason": str(cause), "seconds": time.monotonic() - started}
    return record | {"state": "measured", "result": result, "seconds": time.monotonic() - started}


class PartFailed(Exception):
    """The last line of a part's error."""


def call(command: tuple[str, ...], seconds: float, threads: int) -> dict[str, Any]:
    """The JSON of a module's last line. Raises PartFailed when it fails or takes longer; its children end with it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise PartFailed(f"it took more than {seconds:.0f} s") from None
    lines = output.splitlines()
    if process.returncode or not lines:
        raise PartFailed(last_line(errors) or f"it ended with {process.returncode} and said nothing")
    return json.loads(lines[-1])


def last_line(errors: str) -> str:
    """Of an error, at most 300 characters."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def describe_machine(*, rehearsal: bool) -> dict[str, Any]:
    """GPU, driver, versions and date."""
    found: dict[str, Any] = {"rehearsal": rehearsal, "cores": os.cpu_count(), "python": platform.python_version()}
    packages = packages_distributions()  # the package vllm is of another distribution where there is no GPU
    found["versions"] = {name: version(packages[name][0]) for name in PACKAGES if name in packages}
    found["date"] = datetime.now(UTC).date().isoformat()
    if torch.cuda.is_available():
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]
        found |= {"gpu": torch.cuda.get_device_name(), "driver": driver, "gpus": torch.cuda.device_count()}
    return found


def _model(sizes: Sizes, folder: Path) -> Part:
    longest = max(prompt for prompt, *_ in sizes.cells)
    workload = {"prompt_tokens": longest, "completion_tokens": sizes.completion_tokens, "model": sizes.model}
    workload |= {"dtype": sizes.dtype, "device": sizes.device}
    command = (f"{HERE}.gpu.model", json.dumps(workload), str(folder))
    return Part("the model of all parts", "model", command, WRITING_SECONDS)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / ".rlft" / "bench-gpu", help="folder of the results")
    parser.add_argument("--budget", type=float, default=540.0, help="seconds for all parts together")
    parser.add_argument("--only", nargs="+", default=[""], help="parts whose names have one of these in them")
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes on a CPU")
    options = parser.parse_args()
    if not options.rehearse and not torch.cuda.is_available():
        parser.error("there is no GPU here; --rehearse runs all parts with tiny sizes on the CPU")
    records = run_parts(REHEARSAL if options.rehearse else ON_GPU, options)
    sys.stdout.write((options.out / "table.md").read_text())
    sys.exit(any(record["state"] == "failed" for record in records))


if __name__ == "__main__":
    main()
