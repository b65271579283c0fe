"""Peak memory of log-probabilities, forward and backward, at a large vocabulary: ours beside plain log_softmax.

    python -m benchmarks.logprob_memory --json [--device cuda] [--width 256] [--speed]

Every number comes from a process of its own. On the CPU it is the high-water mark of the resident set (Linux), on a
GPU that of torch's allocator, both above what weights, inputs and the weight's gradient take. `growth_mib` is the
difference between the most and the fewest tokens. On a GPU there is also a run of 32,768 tokens in bfloat16. `--speed`
adds medians of the time, turn by turn, on some shapes. The last line is one JSON object; progress goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rlft.models.head import Head, selected_logprobs

ROOT = Path(__file__).resolve().parents[1]
MIB = 1 << 20
TOKENS = (512, 4096)
SHAPES = ((4096, 98, 256), (1024, 32_000, 256), (512, 151_936, 256))  # tokens, vocabulary, width
TEMPERATURE = 0.7


def plain(hidden: Tensor, head: Head, token_ids: Tensor) -> Tensor:
    """What a trainer does without care: all logits, then log_softmax, with the entropy as a metric."""
    everything = (head.logits(hidden) / TEMPERATURE).log_softmax(-1)
    with torch.no_grad():
        _ = -(everything.exp() * everything).sum(-1)
    return everything.gather(-1, token_ids[:, None]).squeeze(-1)


def ours(hidden: Tensor, head: Head, token_ids: Tensor) -> Tensor:
    """The same by `selected_logprobs`."""
    return selected_logprobs(hidden, head, token_ids, TEMPERATURE).logprobs


IMPLEMENTATIONS: dict[str, Callable[[Tensor, Head, Tensor], Tensor]] = {"rlft": ours, "plain": plain}


def make_inputs(tokens: int, vocabulary: int, width: int, device: str, dtype: str) -> tuple[Tensor, Head, Tensor]:
    """Hidden states, a head with its gradient in place, and token ids."""
    torch.manual_seed(0)
    options: dict[str, Any] = {"device": device, "dtype": getattr(torch, dtype)}
    layer = nn.Linear(width, vocabulary, bias=False, **options)
    layer.weight.grad = torch.ones_like(layer.weight)
    hidden = torch.randn(tokens, width, requires_grad=True, **options)
    return hidden, Head(layer), torch.randint(vocabulary, (tokens,), device=device)


def measure_here(implementation: str, device: str, **shape: Any) -> dict[str, Any]:
    """Peak of one forward and backward above its inputs, MiB."""
    compute = IMPLEMENTATIONS[implementation]
    compute(*make_inputs(8, 64, 8, device, shape["dtype"])).sum().backward()  # what libraries allocate once
    inputs = make_inputs(**shape, device=device)
    before = start_watch(device)
    started = time.perf_counter()
    compute(*inputs).sum().backward()
    peak = read_peak(device) - before
    return {"implementation": implementation, **shape, "peak_mib": peak, "seconds": time.perf_counter() - started}


def start_watch(device: str) -> float:
    """Forget earlier peaks; returns what is taken now, MiB."""
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated() / MIB
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def read_peak(device: str) -> float:
    """The most that was taken since, MiB."""
    if device != "cpu":
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() / MIB
    return resident("VmHWM")


def resident(field: str) -> float:
    """A field of /proc/self/status, MiB."""
    found = re.search(rf"{field}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found, f"this system does not count {field}"
    return int(found[1]) / 1024


def measure(implementation: str, device: str = "cpu", **shape: Any) -> dict[str, Any]:
    """`measure_here` in a fresh process."""
    order = json.dumps({"implementation": implementation, "device": device, **shape})
    command = [sys.executable, "-m", "benchmarks.logprob_memory", "--one", order]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    row = json.loads(done.stdout.splitlines()[-1])
    sys.stderr.write(f"{row}\n")
    return row


def compare(device: str, vocabulary: int, width: int) -> dict[str, Any]:
    """Peaks of both at the fewest and the most tokens, and how much they grow."""
    shape = {"vocabulary": vocabulary, "width": width, "dtype": "float32"}
    rows = [measure(name, device, tokens=tokens, **shape) for name in IMPLEMENTATIONS for tokens in TOKENS]
    peaks = [row["peak_mib"] for row in rows]
    result = {"growth_mib": peaks[1] - peaks[0], "plain_growth_mib": peaks[3] - peaks[2], "device": device}
    if device != "cpu":
        rows.append(measure("rlft", device, tokens=32_768, **(shape | {"dtype": "bfloat16"})))
        result["long_bfloat16_mib"] = rows[-1]["peak_mib"]
    return result | {"rows": rows}


def compare_speed(device: str, repeat: int) -> list[dict[str, Any]]:
    """Median seconds of both, for a trained head and a frozen one."""
    rows: list[dict[str, Any]] = []
    for tokens, vocabulary, width in SHAPES:
        for frozen in (False, True):
            inputs = make_inputs(tokens, vocabulary, width, device, "float32")
            inputs[1].layer.requires_grad_(not frozen)
            seconds: dict[str, list[float]] = {name: [] for name in IMPLEMENTATIONS}
            for name, compute in [*IMPLEMENTATIONS.items()] * (repeat + 1):
                started = time.perf_counter()
                compute(*inputs).sum().backward()
                read_peak(device)  # waits for a GPU
                seconds[name].append(time.perf_counter() - started)
            medians = {name: statistics.median(times[1:]) for name, times in seconds.items()}
            shape = {"tokens": tokens, "vocabulary": vocabulary, "width": width, "frozen": frozen}
            rows.append({**shape, **medians, "ratio": medians["rlft"] / medians["plain"]})
            sys.stderr.write(f"{rows[-1]}\n")
    return rows


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--vocabulary", type=int, default=151_936)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--speed", action="store_true", help="compare times as well")
    parser.add_argument("--repeat", type=int, default=5, help="turns of --speed")
    parser.add_argument("--json", action="store_true", help="print the JSON line alone on stdout (always the last)")
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        result = measure_here(**arguments.one)
    else:
        result = compare(arguments.device, arguments.vocabulary, arguments.width)
        if arguments.speed:
            result["speed"] = compare_speed(arguments.device, arguments.repeat)
    if not arguments.json and not arguments.one:
        sys.stdout.write(f"growth: {result['growth_mib']:.0f} MiB, plain {result['plain_growth_mib']:.0f} MiB\n")
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
