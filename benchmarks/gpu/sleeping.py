"""vLLM beside training on one GPU, asleep while it trains and awake: seconds of a step and memory that is taken.

    python -m benchmarks.gpu.sleeping '{"prompt_tokens": 512, ...}'

Each is a process of its own. Waking is part of the seconds of sampling; `used_mib` is what the whole process holds of
the GPU after a step, vLLM included.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.grpo_step import measure
from benchmarks.grpo_workload import Workload, write_model

SHARE = 0.3  # of the GPU's memory, for vLLM
NAMES = ("seconds", "sampling_seconds", "training_seconds", "peak_mib")


def compare(workload: Workload, folder: Path) -> dict[str, Any]:
    """A step with vLLM asleep in training, and one with vLLM awake."""
    found = {}
    for name, sleep in (("awake", False), ("asleep", True)):
        vllm = {"sleep": sleep, "gpu_memory_utilization": SHARE}
        options = argparse.Namespace(rlft={}, engine="vllm", vllm=vllm, allocator="default")
        row = measure("rlft", workload, folder, options)
        found[name] = {key: row[key] for key in NAMES} | {"used_mib": row["device_used_mib"]}
    return found


def main() -> None:
    """Command line."""
    workload = Workload(**json.loads(sys.argv[1]))
    with tempfile.TemporaryDirectory() as place:
        write_model(workload, Path(place))
        sys.stdout.write(json.dumps(compare(workload, Path(place))) + "\n")


if __name__ == "__main__":
    main()
