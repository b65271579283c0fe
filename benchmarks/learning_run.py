"""One training run of the learning benchmark, in a process of its own; `benchmarks/learning.py` starts it.

    python -m benchmarks.learning_run --arm dapo --seed 0 --output FOLDER [--config FILE] [--set KEY=VALUE ...]

The arm `warm_start` only makes the policy that all arms of a seed begin from.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import time
from collections import deque
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.learning_bench import Bench, make_bench, make_warm_start
from rlft.config import Config
from rlft.config.file import load_config
from rlft.environments.contract.base import BaseEnv, Context
from rlft.environments.fingerprints import code_fingerprint
from rlft.iteration import SampledRound, sample_round, train_sampled
from rlft.models import Policy, PolicyFolder
from rlft.models.folder import load_policy
from rlft.models.origin import choose_device
from rlft.types import Task, Trajectory, derive_seed

WARM_START = "warm_start"
ARMS = ("dapo", "dr_grpo", "grpo", "trl", "random", "group_2", "group_16", "lag_1")
_HERE = Path(__file__).parent
_CODE = ("rlft.iteration", "rlft.models.origin", "rlft.tasks", "rlft.training.imitation")
_OWN_CODE = ("learning_bench.py", "learning_run.py", "learning_trl.py")
_LIBRARIES = ("torch", "transformers", "trl", "reasoning-gym")


def arm_config(file: Path, overrides: list[str], arm: str, seed: int) -> Config:
    """The config of one arm: that of `dapo` but for what the arm's name says, and as many rollouts a round."""
    common = [*overrides, f"seed={seed}", "training.loss_type=dapo"]
    training = load_config(file, common).training
    rollouts = training.tasks_per_round * training.num_generations
    own: list[str] = []
    if arm == "grpo":
        own = ["training.loss_type=grpo"]
    elif arm == "dr_grpo":
        own = ["training.loss_type=dr_grpo", "training.scale_rewards=none"]
    elif arm == "lag_1":
        own = ["training.lag=1"]
    elif arm.startswith("group_"):
        size = int(arm.removeprefix("group_"))
        if rollouts % size:
            raise ValueError(f"{rollouts} rollouts a round are no whole number of groups of {size}")
        own = [f"training.num_generations={size}", f"training.tasks_per_round={rollouts // size}"]
    return load_config(file, [*common, *own])


def identity(config: Config, arm: str) -> str:
    """Changes with everything that a result depends on: settings, code, versions of libraries."""
    code = [code_fingerprint(*_CODE), *((_HERE / name).read_text() for name in _OWN_CODE)]
    parts = [arm, config.model_dump(mode="json"), code, [version(name) for name in _LIBRARIES]]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


class RandomReward(BaseEnv):
    """The prompts of a real environment, and a fair coin in place of its reward."""

    def __init__(self, real: BaseEnv, seed: int) -> None:
        self.real, self.coin = real, np.random.default_rng(derive_seed(seed, "coin"))

    def context(self, task: Task) -> Context:
        return self.real.context(task)

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        return {"coin": float(self.coin.random() < 0.5)}


def train_rlft(bench: Bench, policy: Policy, environment: BaseEnv) -> list[float]:
    """All rounds with rlft, each sampled before the one before it is trained on if there is a lag.

    Returns the mean reward of each. A round that is given up (`TrainReport.stopped`) ends them, as it ends a run: the
    policy before it is then examined in place of all that would have followed.
    """
    means = list[float]()
    lag, ahead = bench.config.training.lag, deque[SampledRound]()
    for number in range(bench.config.training.rounds):
        while len(ahead) <= lag and (next_one := number + len(ahead)) < bench.config.training.rounds:
            ahead.append(sample_round(bench.task_set, environment, policy, bench.engine, bench.config, round=next_one))
        sampled = ahead.popleft()
        before = {name: weight.clone() for name, weight in policy.model.state_dict().items()}
        report = train_sampled(policy, sampled, bench.config, age=min(number, lag))
        if report.stopped:
            policy.model.load_state_dict(before)
            bench.stopped = f"round {number}: {report.stopped}"
            for missed in range(number, bench.config.training.rounds):
                bench.examine(policy, missed + 1)
            break
        means.append(statistics.fmean(reward.total for reward in sampled.rewards if reward.total is not None))
        bench.examine(policy, number + 1)
    return means


def train(bench: Bench, policy: Policy, arm: str) -> list[float]:
    """All rounds of an arm. The trainer of TRL is imported only where it is used: that takes seconds."""
    if arm == "trl":
        from benchmarks.learning_trl import train_trl

        return train_trl(bench, policy)
    coin = arm == "random"
    return train_rlft(bench, policy, RandomReward(bench.environment, bench.config.seed) if coin else bench.environment)


def run_arm(bench: Bench, arm: str, start: PolicyFolder) -> dict[str, Any]:
    """Train from the warm start, with an exam before, now and then, and after. The result is JSON.

    `seconds` is the wall time of the rounds, without exams, imports and loading.
    """
    mark = identity(bench.config, arm)
    policy = load_policy(start, choose_device(bench.config.policy.device))
    bench.examine(policy, 0)
    started, examined = time.perf_counter(), bench.seconds
    rewards = train(bench, policy, arm)
    return {
        "arm": arm,
        "seed": bench.config.seed,
        "identity": mark,
        "seconds": time.perf_counter() - started - (bench.seconds - examined),
        "exam_seconds": bench.seconds,
        "train_reward": rewards,
        "stopped": bench.stopped,
        "tasks": [task.id for task in bench.task_set.split("test")],
        "solved": {str(number): answers for number, answers in bench.solved.items()},
    }


def result_file(output: Path, arm: str, seed: int) -> Path:
    """Where the result of a run is kept."""
    return output / "runs" / f"{arm}-seed{seed}.json"


def write_result(file: Path, result: dict[str, Any]) -> None:
    """The file appears when it is whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(result))
    partial.replace(file)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arm", choices=(WARM_START, *ARMS), required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--config", type=Path, default=_HERE.parent / "configs" / "sums.yaml")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    given = parser.parse_args()
    torch.set_num_threads(1)
    bench = make_bench(arm_config(given.config, given.overrides, given.arm, given.seed))
    start = make_warm_start(bench, given.output)
    if given.arm != WARM_START:
        result = run_arm(bench, given.arm, start)
        write_result(result_file(given.output, given.arm, given.seed), result)


if __name__ == "__main__":
    main()
