"""One GRPO step of rlft beside the same step of TRL: seconds, memory, and what share of the machine training uses.

    python -m benchmarks.grpo_step --prompt-tokens 100 --json
    python -m benchmarks.grpo_step --growth --json

Same weights, 8 prompts x 8 completions x 64 tokens, one AdamW step, no KL; prompts and completions all of one length.
Both sample with transformers, in float32, with two threads and SDPA attention, without gradient checkpointing; TRL
otherwise in the settings that were fastest for it: batches of at most 8,192 tokens, nothing logged. Every turn is a
process of its own (TRL, rlft, TRL, rlft, ...): a step that warms up, then the median of some more. Sampling, scoring
and training all count.

`*_peak_mib` is the most that a step took above what was resident when imports, weights and trainer were loaded, as the
imports differ; `*_resident_peak_mib` is with those. `share_of_matrix_peak` holds the operations that training needs
(`grpo_operations`) against square matrix products measured between the steps. On a GPU memory is that of torch's
allocator, and copies are measured too.

`--engine vllm` lets rlft sample with vLLM; TRL's side stays as it is. Its sampling then counts the push of every step's
weights and the proof that they arrived. Start and memory are part of rlft's cost: vLLM is imported and started in the
first step, so its seconds fall into the warm-up, and its code, its copy of the weights and its cache (0.5 GiB of keys
and values on a CPU) are above what was loaded, in `rlft_peak_mib`.

`--growth` instead changes one size at a time around a base. The last line is one JSON object; progress goes to stderr.
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
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.grpo_growth import measure_growth, show_growth
from benchmarks.grpo_operations import training_operations
from benchmarks.grpo_workload import SHAPES, Workload, write_model

ROOT = Path(__file__).resolve().parents[1]
SIDES = ("trl", "rlft")
PACKAGES = ("torch", "transformers", "peft", "trl")
PARTS = ("sampling", "scoring", "training")
TIMES = ("seconds", *(f"{part}_seconds" for part in PARTS), "cpu_seconds", "other_cores")  # of a step
DISTURBED = 0.1  # cores; two programs with threads on the same cores slow each other by far more than half
MEMORY = ("peak_mib", "resident_peak_mib", "loaded_mib")
ROWS = (  # of the table: title, key, digits
    ("whole step, s", "seconds", 3),
    *((f"  {part}, s", f"{part}_seconds", 3) for part in PARTS),
    ("CPU of all threads, s", "cpu_seconds", 3),
    ("tokens a second", "tokens_per_second", 0),
    ("peak above loaded, MiB", "peak_mib", 0),
    ("peak with imports and weights, MiB", "resident_peak_mib", 0),
)


def measure_here(order: dict[str, Any]) -> dict[str, Any]:
    """One side's steps in this process."""
    workload, folder = Workload(**order["workload"]), Path(order["folder"])
    torch.set_num_threads(workload.threads)
    if order["side"] == "trl":
        from benchmarks.grpo_step_trl import run

        return run(workload, folder, order["settings"])
    from benchmarks.grpo_step_rlft import run

    return run(workload, folder, order["settings"], order["measure_machine"], order["engine"], order["vllm"])


def measure(side: str, workload: Workload, folder: Path, options: argparse.Namespace, **more: Any) -> dict[str, Any]:
    """One side's steps in a fresh process: medians of its seconds, and its memory."""
    order = {"side": side, "workload": dataclasses.asdict(workload), "folder": str(folder)}
    order |= {"settings": getattr(options, side), "measure_machine": False, "engine": options.engine}
    order |= {"vllm": options.vllm, **more}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"OMP_NUM_THREADS": str(workload.threads), "MKL_NUM_THREADS": str(workload.threads)}
    environment |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment |= machine.allocator_variables(options.allocator)
    command = [sys.executable, "-m", "benchmarks.grpo_step", "--one", json.dumps(order)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{side} failed with {order}:\n{done.stderr[-4000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    medians = {name: statistics.median(step[name] for step in found["steps"]) for name in TIMES}
    row = {"side": side, **medians, **found}
    message = f"{side}: {row['seconds']:.3f} s, {row['peak_mib']:.0f} MiB, {workload}"
    if row["other_cores"] > DISTURBED:
        message += f"; DISTURBED: other processes kept {row['other_cores']:.1f} cores busy"
    sys.stderr.write(f"{message}\n")
    return row


def compare(workload: Workload, options: argparse.Namespace) -> dict[str, Any]:
    """Both sides turn by turn on the same model."""
    with tempfile.TemporaryDirectory() as place:
        folder = options.folder or Path(place)
        if options.folder is None:
            write_model(workload, folder)
        runs = [
            measure(side, workload, folder, options, measure_machine=side == "rlft")
            for _ in range(options.repeats)
            for side in SIDES
        ]
    return summarise(workload, runs) | {
        "workload": dataclasses.asdict(workload),
        "allocator": options.allocator,
        "engine": options.engine,
        "settings": {side: getattr(options, side) for side in SIDES},
        **machine.describe(workload.device, PACKAGES),
        "runs": runs,
    }


def summarise(workload: Workload, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the turns, and what follows from them."""
    found: dict[str, Any] = {}
    for side in SIDES:
        rows = [row for row in runs if row["side"] == side]
        found |= {f"{side}_{name}": statistics.median(row[name] for row in rows) for name in (*TIMES, *MEMORY)}
        found[f"{side}_tokens_per_second"] = workload.rollouts * workload.completion_tokens / found[f"{side}_seconds"]
    found = {"ratio": found["trl_seconds"] / found["rlft_seconds"], **found}
    ours = found["rlft_peak_mib"]  # 0 where a step fits into what was there before it
    found["memory_ratio"] = found["trl_peak_mib"] / ours if ours else None
    products = statistics.median(rate for row in runs for rate in row.get("product_rates", ()))
    needed = training_operations(workload)
    for side, prefix in (("rlft", ""), ("trl", "trl_")):
        found[f"{prefix}share_of_matrix_peak"] = needed / found[f"{side}_training_seconds"] / products
    whole = training_operations(workload, whole_last_layer=True)
    found["share_with_whole_last_layer"] = found["share_of_matrix_peak"] * whole / needed
    found |= {"matrix_gflops": products / 1e9, "training_gflop": needed / 1e9}
    if copies := [rate for row in runs for rate in row.get("copy_rates", ())]:
        found["copy_gb_per_second"] = statistics.median(copies) / 1e9
    return found


def show(workload: Workload, found: dict[str, Any]) -> Table:
    """The comparison as a table."""
    sizes = f"{workload.groups} x {workload.group_size} x {workload.completion_tokens} tokens"
    where = f"{workload.model}, {workload.dtype} on {workload.device}"
    table = Table(title=f"{sizes} after prompts of {workload.prompt_tokens}; {where}")
    for name in ("", "TRL", "rlft", "TRL / rlft"):
        table.add_column(name, justify="right" if name else "left")
    for title, key, digits in ROWS:
        trl, rlft = found[f"trl_{key}"], found[f"rlft_{key}"]
        table.add_row(title, f"{trl:.{digits}f}", f"{rlft:.{digits}f}", f"{trl / rlft:.2f}" if rlft else "")
    shares = (found["trl_share_of_matrix_peak"], found["share_of_matrix_peak"])
    table.add_row(f"share of {found['matrix_gflops']:.0f} GFLOP/s in training", *(f"{share:.2f}" for share in shares))
    return table


def main() -> None:
    """Command line."""
    options = _parser().parse_args()
    if options.one:
        sys.stdout.write(json.dumps(measure_here(options.one)) + "\n")
        return
    names = {field.name for field in dataclasses.fields(Workload)}
    workload = Workload(**{name: value for name, value in vars(options).items() if name in names})
    if options.growth:
        result = measure_growth(workload, options, measure)
        table = show_growth(result)
    else:
        result = compare(workload, options)
        table = show(workload, result)
    Console(stderr=options.json).print(table)
    sys.stdout.write(json.dumps(result) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompt-tokens", type=int, default=100)
    parser.add_argument("--common-tokens", type=int, default=0, help="of each prompt, the same in all at its beginning")
    parser.add_argument("--groups", type=int, default=8, help="prompts")
    parser.add_argument("--group-size", type=int, default=8, help="completions of each")
    parser.add_argument("--completion-tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3, help="processes of each side")
    parser.add_argument("--steps", type=int, default=3, help="measured steps of each process")
    parser.add_argument("--model", choices=sorted(SHAPES), default="tiny")
    parser.add_argument(
        "--engine", choices=["transformers", "vllm"], default="transformers", help="what rlft samples with"
    )
    parser.add_argument("--vocabulary", type=int, help="in place of the model's")
    parser.add_argument("--lora", action="store_true", help="train an adapter")
    parser.add_argument("--gradient-checkpointing", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--allocator", choices=["default", "keep"], default="default", help="whether freed memory stays"
    )
    parser.add_argument("--trl", type=json.loads, default={}, help="JSON that replaces settings of GRPOConfig")
    parser.add_argument("--rlft", type=json.loads, default={}, help="JSON that replaces settings of `training`")
    parser.add_argument("--vllm", type=json.loads, default={}, help="JSON that replaces settings of `rollout.vllm`")
    parser.add_argument("--folder", type=Path, help="with a model that `write_model` wrote; else it is written anew")
    parser.add_argument("--growth", action="store_true", help="change one size at a time instead")
    parser.add_argument("--json", action="store_true", help="print the JSON line alone on stdout (always the last)")
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
