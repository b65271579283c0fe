"""One training step by several workers beside the same step by one: seconds, what each holds, whether they agree.

    python -m benchmarks.distributed --json

8 groups x 8 completions x 64 tokens, prompts of 400, a model of 3 M parameters in float32, full weights, one AdamW
step. Every worker is a process of one thread, also where there is one. Workers are forked and meet as those of a run
do; Ray, which starts them there, is left out. A step that warms up, then the median of some more; turns of one worker
and of several alternate.

`speedup_N` is the seconds of one worker over those of N, `memory_share_N` the largest share of the numbers of weights,
gradients and moments that a worker holds of what one holds, `peak_mib_N` the most memory that a worker took in the
steps beyond what it had before the model was read (with activations and what is gathered), and `parity` the largest
relative difference of a loss or gradient norm. `ideal_N` is what the division by tokens allows: all tokens over those
of the worker with most. `alone_N` is the speed-up of N processes that do a share each and know nothing of each other:
what the machine gives. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from rich.console import Console
from torch.distributed.tensor import DTensor

from benchmarks.grpo_workload import SEED, Workload, write_model
from benchmarks.machine import resident
from rlft.config import TrainingConfig
from rlft.config.rollout import Sharding
from rlft.models.live import Policy, PolicyMetadata
from rlft.training.batching import ALONE, Pair, World, packed_tokens, partition
from rlft.training.trainer import Updater, prepare_optimizer
from rlft.types import Rollout
from tests.factories import make_rollout
from tests.rlft.training.distributed.together import run_together


@dataclasses.dataclass(frozen=True)
class Turn:
    """What a worker saw in a turn: seconds of each step, its losses and norms, how many numbers it holds, and its
    largest memory in MiB."""

    seconds: list[float]
    numbers: list[float]
    held: int
    peak: float


class Share(World):
    """One of several workers that know nothing of each other: it trains on its share, as if that were all."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def gather(self, numbers: Any) -> list[list[float]]:
        """Only what it has itself."""
        return [list(numbers)]


def make_groups(workload: Workload, step: int) -> list[list[Pair]]:
    """Random tokens, of which nobody has recorded log-probabilities."""
    draw = np.random.default_rng([SEED, step])

    def rollout(task: int, sample: int, prompt: np.ndarray) -> Rollout:
        completion = draw.integers(0, workload.shape["vocab_size"], workload.completion_tokens)
        return make_rollout(f"t{task}", sample, prompt=prompt, completion=completion, policy="older")  # type: ignore[reportArgumentType]

    groups = []
    for task in range(workload.groups):
        prompt = draw.integers(0, workload.shape["vocab_size"], workload.prompt_tokens)
        advantages = draw.standard_normal(workload.group_size).tolist()
        groups.append([(rollout(task, sample, prompt), each) for sample, each in enumerate(advantages)])
    return groups


def train(workload: Workload, folder: Path, world: Any, sharding: Sharding = "full_shard") -> Turn:
    """Steps of one worker of a world."""
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    before = resident("VmRSS")
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    metadata = PolicyMetadata("full", base_model=None, base_revision=None, base_hash=None, dtype="float32")
    policy = Policy(model, None, metadata)  # type: ignore[reportArgumentType]  # nothing is tokenized
    if hasattr(world, "mesh"):
        policy.shard(world.mesh, sharding)
    settings = TrainingConfig(learning_rate=1e-6, max_kl=1e9)
    prepare_optimizer(policy, settings, None)
    length = workload.completion_tokens
    updater = Updater(policy, settings, temperature=1.0, max_completion_length=length, reference=None, world=world)
    seconds = []
    Path("/proc/self/clear_refs").write_text("5")  # the peak is that of the steps, and not of reading the model
    for step in range(workload.steps + 1):
        groups, started = make_groups(workload, step), time.perf_counter()
        updater.step(groups)
        seconds.append(time.perf_counter() - started)
    assert policy.optimizer is not None
    weights = list(policy.model.parameters())
    held = sum(map(_own, (*weights, *weights, *policy.optimizer.tensors().values())))  # a gradient for each weight
    seen = updater.tally.per_update
    return Turn(seconds[1:], [*seen["policy_loss"], *seen["grad_norm"]], held, resident("VmHWM") - before)


def _own(tensor: torch.Tensor) -> int:
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).numel()


def measure(workload: Workload, sizes: list[int], turns: int, sharding: Sharding) -> dict[str, Any]:
    """All turns, one after the other, and what they say together."""
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        write_model(workload, folder)
        found: dict[tuple[str, int], list[list[Turn]]] = {}
        for turn in range(turns):
            for size in sizes:
                for kind in ("together", "alone") if size > 1 else ("together",):
                    meeting = Path(place) / f"{kind}{size}-{turn}"
                    meeting.mkdir()
                    seen = run_together(size, meeting, _Work(workload, folder, kind, sharding))
                    found.setdefault((kind, size), []).append(seen)
                    console.print(f"{kind} {size}: {_median([seen]):.3f} s")
    one = found["together", 1]
    report: dict[str, Any] = {
        "seconds_1": _median(one),
        "peak_mib_1": _peak(one),
        "cores": os.cpu_count(),
        "load": list(os.getloadavg()),
    }
    differences = [0.0]
    for size in sizes[1:]:
        several = found["together", size]
        report[f"seconds_{size}"] = _median(several)
        report[f"speedup_{size}"] = _median(one) / _median(several)
        report[f"alone_{size}"] = _median(one) / _median(found["alone", size])
        report[f"memory_share_{size}"] = max(each.held for each in several[0]) / one[0][0].held
        report[f"peak_mib_{size}"] = _peak(several)
        report[f"ideal_{size}"] = _ideal(workload, size)
        pairs = zip(one[0][0].numbers, several[0][0].numbers, strict=True)
        differences += [abs(a - b) / max(abs(a), 1e-3) for a, b in pairs]
    return report | {
        "parity": max(differences),
        "workload": dataclasses.asdict(workload),
        "turns": turns,
        "sharding": sharding,
    }


@dataclasses.dataclass(frozen=True)
class _Work:
    workload: Workload
    folder: Path
    kind: str
    sharding: Sharding

    def __call__(self, world: Any) -> Turn:
        given = ALONE if world.size == 1 else world if self.kind == "together" else Share(world.rank, world.size)
        return train(self.workload, self.folder, given, self.sharding)


def _median(turns: list[list[Turn]]) -> float:
    """The median over turns and steps of the slowest worker's seconds."""
    return statistics.median(max(step) for turn in turns for step in zip(*(each.seconds for each in turn), strict=True))


def _peak(turns: list[list[Turn]]) -> float:
    """The median over turns of the worker that took most."""
    return statistics.median(max(each.peak for each in turn) for turn in turns)


def _ideal(workload: Workload, size: int) -> float:
    loads = [sum(map(packed_tokens, mine)) for mine in partition(make_groups(workload, 0), size, shares_prompts=True)]
    return sum(loads) / max(loads)


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="the result in one line")
    parser.add_argument("--prompt-tokens", type=int, default=400)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[2])
    parser.add_argument("--sharding", choices=get_args(Sharding), default="full_shard")
    asked = parser.parse_args(arguments)
    workload = Workload(asked.prompt_tokens, model=asked.model, steps=asked.steps, threads=1)
    report = measure(workload, [1, *asked.workers], asked.turns, asked.sharding)
    sys.stdout.write(json.dumps(report, indent=None if asked.json else 1) + "\n")


if __name__ == "__main__":
    main()
