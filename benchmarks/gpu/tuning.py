"""How many tokens TRL and rlft should read at the same time: seconds and memory of one step for each micro-batch.

    python -m benchmarks.gpu.tuning '{"prompt_tokens": 2048, ...}'

The sizes are those of `Workload`. All micro-batches of both sides run in this process, from small to large, until one
does not fit into the memory. The last line is one JSON object.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks import grpo_step_rlft
from benchmarks.grpo_workload import Workload, write_model

LEAST_TOKENS = 4096
BUDGETS = (16_384, 32_768, 65_536, 131_072)  # rlft's `per_step_token_budget`

Run = Callable[[Workload, Path], dict[str, Any]]


def compare(workload: Workload) -> dict[str, Any]:
    """Every micro-batch of both sides."""
    with tempfile.TemporaryDirectory() as place:
        write_model(workload, Path(place))
        rows = [*_measure("rlft", workload, Path(place)), *_measure("trl", workload, Path(place))]
    return {"rows": rows}


def _measure(side: str, workload: Workload, folder: Path) -> Iterator[dict[str, Any]]:
    for size, run in _of_rlft() if side == "rlft" else _of_trl(workload):
        gc.collect()
        try:
            found = run(workload, folder)
        except torch.OutOfMemoryError as cause:
            sys.stderr.write(f"{side} {size}: {cause}\n")
            yield {"side": side, "size": size, "out_of_memory": True}
            break
        step = min(found["steps"], key=lambda step: step["training_seconds"])
        names = ("seconds", "sampling_seconds", "training_seconds")
        row = {"side": side, "size": size, "peak_mib": found["peak_mib"], **{name: step[name] for name in names}}
        sys.stderr.write(f"{row}\n")
        yield row
        if workload.device != "cpu":
            torch.cuda.empty_cache()


def _of_rlft() -> Iterator[tuple[int, Run]]:
    """By tokens."""
    for budget in BUDGETS:
        settings = {"per_step_token_budget": budget}
        yield budget, lambda *where, settings=settings: grpo_step_rlft.run(*where, settings, False, "transformers")


def _of_trl(workload: Workload) -> Iterator[tuple[int, Run]]:
    """By completions."""
    from benchmarks import grpo_step_trl

    length = workload.prompt_tokens + workload.completion_tokens
    for rows in (rows for rows in range(1, workload.rollouts + 1) if workload.rollouts % rows == 0):
        if rows * length >= min(LEAST_TOKENS, workload.rollouts * length):
            settings = {"per_device_train_batch_size": rows}
            yield rows, lambda *where, settings=settings: grpo_step_trl.run(*where, settings)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(compare(Workload(**json.loads(sys.argv[1])))) + "\n")
