"""Where the seconds of rlft's step go: the GPU's busiest kernels and the CPU's busiest operations, by torch's profiler.

    python -m benchmarks.gpu.profiling '{"prompt_tokens": 2048, ...}'

The sizes are those of `Workload`. One step warms up, then one is profiled. `busy` is the share of the step in which a
kernel ran: what it leaves is the CPU, which launches them. The last line is one JSON object.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks import grpo_step_rlft
from benchmarks.grpo_workload import Workload, write_model
from rlft.training.trainer import Updater

TOP = 25  # kernels and operations that are listed


def profile_step(workload: Workload) -> dict[str, Any]:
    """Sampling and training of the last of `steps` rounds, each by itself."""
    found: dict[str, Any] = {}
    from rlft.engines.transformers_engine import TransformersEngine

    wrapped = ((TransformersEngine, "generate", "sampling"), (Updater, "step", "training"))
    originals = [(holder, name, getattr(holder, name)) for holder, name, _ in wrapped]
    try:
        for holder, name, part in wrapped:
            setattr(holder, name, _profiled(getattr(holder, name), part, found, workload))
        with tempfile.TemporaryDirectory() as place:
            write_model(workload, Path(place))
            grpo_step_rlft.run(workload, Path(place), {}, False, "transformers")
    finally:
        for holder, name, own in originals:
            setattr(holder, name, own)
    return found


def _profiled(own: Any, part: str, found: dict[str, Any], workload: Workload) -> Any:
    calls = 0

    def run(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls <= workload.steps:
            return own(*arguments, **options)
        activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if workload.device != "cpu" else [])
        with profile(activities=activities) as watched:
            started = time.perf_counter()
            result = own(*arguments, **options)
            if workload.device != "cpu":
                torch.cuda.synchronize()
            seconds = time.perf_counter() - started
        found[part] = _summarise(watched.key_averages(), seconds)
        return result

    return run


def _summarise(events: Any, seconds: float) -> dict[str, Any]:
    kernels = [event for event in events if str(event.device_type).endswith("CUDA")]
    kernels.sort(key=lambda event: -event.self_device_time_total)
    operations = sorted(
        (event for event in events if event not in kernels), key=lambda event: -event.self_cpu_time_total
    )
    busy = sum(event.self_device_time_total for event in kernels) / 1e6
    return {
        "seconds": seconds,
        "busy": busy / seconds,
        "launched": sum(event.count for event in kernels),
        "kernels": [[e.key[:90], e.self_device_time_total / 1e6, e.count] for e in kernels[:TOP]],
        "operations": [[e.key[:60], e.self_cpu_time_total / 1e6, e.count] for e in operations[:TOP]],
    }


if __name__ == "__main__":
    result = profile_step(Workload(**json.loads(sys.argv[1])))
    for part, found in result.items():
        sys.stderr.write(f"{part}: {found['seconds']:.3f} s under the profiler, {found['busy']:.2f} busy\n")
        for name, seconds, count in found["kernels"] + found["operations"]:
            sys.stderr.write(f"  {seconds:8.4f} s {count:7d}  {name}\n")
    sys.stdout.write(json.dumps(result) + "\n")
