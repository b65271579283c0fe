"""Tokens a second of sampling by each engine, beside vLLM used bare, and what new weights cost every round.

    python -m benchmarks.rollout --json

A round is what the pipeline does: `load_policy` with weights that have changed (the push, and the proof that they
arrived), then `collect_rollouts` for 8 prompts x 8 samples x 256 tokens, all of full length. Models of 3 and 59 million
parameters, prompts of 16 and 400 tokens, float32 on a CPU, two threads.

`bare` is `LLM.generate` in a loop: an engine started as rlft starts its own, the same prompts as token ids, as many
requests with a seed and a log-probability each, nothing read from what comes back. Its prefix cache is emptied before
each round, outside of the measured time; it never gets new weights.

Every turn is a process of its own (bare, vllm, transformers, vllm_server, bare, ...) that measures all prompt lengths
on one model: for each a round that warms up, then some more. Seconds are medians over the rounds of a turn, then over
the turns. `sampling_seconds` is `collect_rollouts`, `push_seconds` what the engine says of its push, `proof_seconds`
the rest of `load_policy`, `seconds` all of them. Tokens a second are those of sampling; `_with_push` of the round.

`share_of_bare_vllm` is vllm's tokens a second over bare's at the main point, the smallest model with the longest
prompt; `push_share` and `proof_share` are parts of that round. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from benchmarks import machine
from benchmarks.grpo_workload import SHAPES, Workload, write_model
from benchmarks.rollout_table import TIMES, shares, show, summarise

ROOT = Path(__file__).resolve().parents[1]
SIDES = ("bare", "vllm", "transformers", "vllm_server")
DISTURBED = 0.1  # cores


def measure_here(order: dict[str, Any]) -> list[list[dict[str, float]]]:
    """One side's rounds in this process, for each workload."""
    workloads = [Workload(**sizes) for sizes in order["workloads"]]
    torch.set_num_threads(workloads[0].threads)
    from benchmarks import rollout_sides

    if order["side"] == "bare":
        return rollout_sides.run_bare(workloads, Path(order["folder"]), order["cache_gib"])
    where = Path(order["folder"]), order["cache_gib"]
    return rollout_sides.run_engine(order["side"], workloads, *where)


def measure(side: str, workloads: list[Workload], folder: Path, cache_gib: float) -> list[dict[str, Any]]:
    """One turn in a fresh process: a row of medians for each workload, and its rounds."""
    order = {"side": side, "workloads": [dataclasses.asdict(workload) for workload in workloads]}
    order |= {"folder": str(folder), "cache_gib": cache_gib}
    command = [sys.executable, "-m", "benchmarks.rollout", "--one", json.dumps(order)]
    environment = _environment(side, workloads[0].threads)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{side} failed with {order}:\n{done.stderr[-4000:]}")
    rows = []
    for workload, rounds in zip(workloads, json.loads(done.stdout.splitlines()[-1]), strict=True):
        row = {"side": side, "model": workload.model, "prompt_tokens": workload.prompt_tokens, "rounds": rounds}
        row |= {name: statistics.median(found[name] for found in rounds) for name in TIMES}
        rows.append(row)
        message = f"{side}, {workload.model}, prompts of {workload.prompt_tokens}: {row['sampling_seconds']:.3f} s of "
        message += f"sampling, {row['seconds']:.3f} s in all"
        if row["other_cores"] > DISTURBED:
            message += f"; DISTURBED: other processes kept {row['other_cores']:.1f} cores busy"
        sys.stderr.write(f"{message}\n")
    return rows


def _environment(side: str, threads: int) -> dict[str, str]:
    """That of the children: bare vLLM's is what rlft sets before it starts its own."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    environment |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    if side == "bare":
        from rlft.engines.vllm_engine import ENVIRONMENT

        environment |= ENVIRONMENT
    return environment


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """All sides turn by turn on the same models."""
    names = ("groups", "group_size", "completion_tokens", "threads", "device", "dtype")
    sizes = {name: getattr(options, name) for name in names}
    points = {
        model: [Workload(prompt, model=model, steps=options.rounds, **sizes) for prompt in sorted(options.prompts)]
        for model in options.sizes
    }
    with tempfile.TemporaryDirectory() as place:
        folders = {model: Path(place) / model for model in points}
        for model, workloads in points.items():
            write_model(workloads[-1], folders[model])
        runs = [
            row
            for _ in range(options.repeats)
            for model, workloads in points.items()
            for side in options.engines
            for row in measure(side, workloads, folders[model], options.cache_gib)
        ]
    rows = [summarise(workload, side, runs) for ws in points.values() for workload in ws for side in options.engines]
    packages = [*packages_distributions().get("vllm", ()), "torch", "transformers"]
    return shares(rows, (options.sizes[0], max(options.prompts))) | {
        "workload": sizes | {"rounds": options.rounds, "repeats": options.repeats, "cache_gib": options.cache_gib},
        **machine.describe(options.device, sorted(set(packages))),
        "runs": runs,
    }


def main() -> None:
    """Command line."""
    options = _parser().parse_args()
    if options.one:
        sys.stdout.write(json.dumps(measure_here(options.one)) + "\n")
        return
    result = compare(options)
    Console(stderr=True).print(show(result))
    sys.stdout.write(json.dumps(result) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", choices=SIDES, default=list(SIDES), help="sides, in their turns' order")
    parser.add_argument("--sizes", nargs="+", choices=sorted(SHAPES), default=["tiny", "60m"], help="smallest first")
    parser.add_argument("--prompts", nargs="+", type=int, default=[16, 400], help="lengths in tokens")
    parser.add_argument("--groups", type=int, default=8, help="prompts of a round")
    parser.add_argument("--group-size", type=int, default=8, help="samples of each")
    parser.add_argument("--completion-tokens", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3, help="processes of each side and model")
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds of each process and prompt length")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cache-gib", type=float, default=1.0, help="vLLM's keys and values on a CPU")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--json", action="store_true", help="print the JSON line alone on stdout (always the last)")
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
