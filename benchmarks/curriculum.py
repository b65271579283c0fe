"""How many rollouts it takes to learn as much, by the way in which tasks are drawn.

    python -m benchmarks.curriculum --json [--task demo] [--seeds 0,1,2] [--rollouts 20480]

Tasks: `demo` is `configs/demo.yaml`; `gsm8k_steps` are the sums and differences of two numbers that stand in the
solutions of GSM8K (`48+24=`; of RLFT_SHARED_DATA), learned by a model of 0.6 M parameters with random weights after a
warm start on most of them. Arms:

- `uniform`: each task as often as any other
- `dynamic`: the same, and up to three samplings a round in place of groups without variance
- `pass_rate`: tasks drawn by their pass rates
- `pass_rate_dynamic`: both

All arms of a seed begin from one warm start and sample as many rollouts, those thrown away too. After every round the
greedy answers to held-out tasks (all of `validation`, `gate` and `test`) are scored. `rollouts_to` is how many rollouts
it took to reach the start plus 50 and 80 % of what `uniform` gains by its end, `null` where that was not reached;
`ratio` is that over the rollouts of `uniform`. Progress goes to stderr; the last line of stdout is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rlft
from rlft.config import Config
from rlft.config.file import load_config
from rlft.engines.transformers_engine import TransformersEngine
from rlft.environments.contract.loading import load_environment
from rlft.harness.rollout import PolicyPlayer, SamplingSettings, collect_rollouts
from rlft.iteration import RoundResult, run_round
from rlft.models import Policy, PolicyFolder, save_policy
from rlft.models.folder import load_policy
from rlft.models.origin import choose_device, create_policy
from rlft.rewards.scoring import score_rollouts
from rlft.tasks import ingest_tasks
from rlft.tasks.curriculum import PassRates, note_round
from rlft.training.imitation import run_sft
from rlft.types import TaskSet

ROOT = Path(__file__).resolve().parents[1]
ARMS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "dynamic": {"max_num_gen_batches": 3},
    "pass_rate": {"curriculum": "pass_rate"},
    "pass_rate_dynamic": {"curriculum": "pass_rate", "max_num_gen_batches": 3},
}
SHARES = (0.5, 0.8)
Curve = list[tuple[int, float]]  # rollouts sampled so far, and the accuracy on held-out tasks


class Calculation(rlft.BaseEnv):
    """Right is the number as the solution has it."""

    async def compute_reward(self, completion: rlft.Trajectory, ground_truth: Any) -> dict[str, float]:
        return {"right": float(completion.text.strip() == ground_truth)}


def demo_config(seed: int, folder: Path) -> Config:
    """The demo's."""
    del folder
    return load_config(ROOT / "configs" / "demo.yaml", [f"seed={seed}", "policy.device=cpu"])


def gsm8k_config(seed: int, folder: Path) -> Config:
    """Calculations of GSM8K's train questions; training is that of the demo, with larger groups and fewer tasks."""
    file = folder / "steps.jsonl"
    if not file.is_file():
        shared = Path(os.environ.get("RLFT_SHARED_DATA") or ROOT.parent / "shared" / "data")
        rows = [{"prompt": f"{asked}=", "answer": found} for asked, found in calculations(shared / "gsm8k").items()]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scratch = {"architecture": "qwen3", "characters": "0123456789+-= ", "max_position_embeddings": 32}
    return Config.model_validate(
        {
            "name": "gsm8k_steps",
            "seed": seed,
            "tasks": {
                "source": "jsonl",
                "path": str(file),
                "prompt": "prompt",
                "answer": "answer",
                "splits": {"train": 2200, "validation": 140, "gate": 220, "test": 220},
            },
            "environment": {"name": "benchmarks.curriculum:Calculation"},
            "policy": {"from_scratch": scratch, "device": "cpu"},
            "warm_start": {
                "demonstrations": 1500,
                "steps": 800,
                "batch_size": 64,
                "learning_rate": 1.5e-3,
                "warmup_steps": 30,
            },
            "rollout": {"max_completion_length": 8, "batch_size": 1024},
            "training": {
                "tasks_per_round": 128,
                "num_generations": 8,
                "updates_per_round": 4,
                "learning_rate": 3e-4,
                "warmup_updates": 10,
                "epsilon_high": 0.28,
                "adam_beta2": 0.95,
            },
        }
    )


CONFIGS = {"demo": demo_config, "gsm8k_steps": gsm8k_config}


def calculations(gsm8k: Path) -> dict[str, str]:
    """{calculation: result} of the solutions to GSM8K's train questions: sums and differences of up to three digits."""
    found: dict[str, str] = {}
    for line in (gsm8k / "train.jsonl").read_text().splitlines():
        for asked, result in re.findall(r"<<([^<>=]+)=([^<>=]+)>>", json.loads(line)["answer"]):
            asked, result = re.sub(r"[ $,]", "", asked), re.sub(r"[ $,]", "", result)
            if re.fullmatch(r"[0-9]{1,3}[+-][0-9]{1,3}", asked) and re.fullmatch(r"-?[0-9]{1,4}", result):
                found.setdefault(asked, result)
    return found


def with_arm(config: Config, arm: str) -> Config:
    """The config of an arm."""
    return config.model_copy(update={"training": config.training.model_copy(update=ARMS[arm])})


class Run:
    """One arm of a seed: trains, and keeps the curve and what was thrown away."""

    def __init__(self, config: Config, tasks: TaskSet) -> None:
        self.config, self.tasks, self.rates = config, tasks, PassRates()
        self.environment = load_environment(config.environment.name, config.environment.kwargs)
        self.engine = TransformersEngine(config.rollout.batch_size)
        self.curve: Curve = []
        self.thrown = self.sampled = 0
        self.zero: list[float] = []

    def examine(self, policy: Policy) -> None:
        """Note the share of held-out tasks whose greedy answer is right."""
        held = [task for name in ("validation", "gate", "test") for task in self.tasks.split(name)]
        self.engine.load_policy(policy)
        length, seed = self.config.rollout.max_completion_length, self.config.seed
        sampling = SamplingSettings(temperature=0.0, max_completion_length=length, seed=seed)
        player = PolicyPlayer(policy, self.engine)
        rollouts = collect_rollouts(held, self.environment, player, sampling, num_generations=1, round=0, label="exam")
        rewards = score_rollouts(rollouts, {task.id: task for task in held}, self.environment, self.config.reward)
        self.curve.append((self.sampled, statistics.fmean(float(reward.solved) for reward in rewards)))

    def train(self, policy: Policy, rollouts: int) -> None:
        """Rounds until so many rollouts are sampled."""
        training, number = self.config.training, 0
        while self.sampled < rollouts:
            result = run_round(
                self.tasks,
                self.environment,
                policy,
                self.engine,
                self.config,
                round=number,
                rates=self.rates,
            )
            if result.report.stopped:
                raise RuntimeError(f"round {number} was stopped: {result.report.stopped}")
            self._note(result)
            if training.curriculum == "pass_rate":
                settings = training.pass_rates.half_life, training.pass_rates.retire_at
                self.rates = note_round(
                    self.rates,
                    result.rewards,
                    round=number,
                    half_life=settings[0],
                    retire_at=settings[1],
                )
            number += 1
            self.examine(policy)

    def _note(self, result: RoundResult) -> None:
        self.sampled += len(result.rollouts)
        fates = list(result.report.fates.values())
        self.thrown += fates.count("filtered:no_variance")
        self.zero.append(fates.count("filtered:no_variance") / len(fates))


def rollouts_to(curve: Curve, target: float) -> float | None:
    """After how many rollouts an accuracy is first reached, between two exams in proportion; `None` if it is not."""
    before = curve[0]
    for here in curve:
        if here[1] >= target:
            gained = here[1] - before[1]
            share = (target - before[1]) / gained if gained > 0 else 1.0
            return before[0] + share * (here[0] - before[0])
        before = here
    return None


def at_rollouts(curve: Curve, rollouts: float) -> float:
    """The accuracy after so many rollouts, between two exams in proportion; that of the last exam beyond it."""
    sampled, accuracies = zip(*curve, strict=True)
    return float(np.interp(rollouts, sampled, accuracies))


def compare_arms(curves: Mapping[str, Curve]) -> dict[str, Any]:
    """What each arm of a seed took to come as far as `uniform`."""
    uniform = curves["uniform"]
    start, gain = uniform[0][1], uniform[-1][1] - uniform[0][1]
    found: dict[str, Any] = {}
    for arm, curve in curves.items():
        needed = {share: rollouts_to(curve, start + share * gain) for share in SHARES}
        base = {share: rollouts_to(uniform, start + share * gain) for share in SHARES}
        found[arm] = {
            "rollouts_to": {str(share): needed[share] for share in SHARES},
            "ratio": {str(share): _over(needed[share], base[share]) for share in SHARES},
            "accuracy": at_rollouts(curve, uniform[-1][0]),
        }
    return found


def _over(needed: float | None, base: float | None) -> float | None:
    return None if needed is None or not base else needed / base


def run_seed(task: str, seed: int, arms: Sequence[str], rollouts: int, folder: Path) -> dict[str, Any]:
    """All arms of a seed, from one warm start."""
    config = CONFIGS[task](seed, folder)
    tasks = ingest_tasks(config.tasks, environment=config.environment.name, seed=config.tasks.seed)
    policy = create_policy(config.policy, seed=seed)
    assert config.warm_start is not None
    environment = load_environment(config.environment.name, config.environment.kwargs)
    run_sft(policy, config.warm_start, tasks.split("train"), environment, seed=seed)
    start = save_policy(policy, folder / f"start{seed}", stage="warm_start")
    curves, more = {}, {}
    for arm in arms:
        began = time.process_time()
        run = Run(with_arm(config, arm), tasks)
        live = load_policy(PolicyFolder(start.path), choose_device("cpu"))
        run.examine(live)
        run.train(live, rollouts)
        curves[arm] = run.curve
        more[arm] = {
            "thrown": run.thrown,
            "sampled": run.sampled,
            "rounds": len(run.zero),
            "without_variance": statistics.fmean(run.zero),
            "retired": len(run.rates.retired),
            "cpu_seconds": round(time.process_time() - began, 1),
        }
        shown = ", ".join(f"{accuracy:.3f}" for _, accuracy in run.curve[:: max(len(run.curve) // 8, 1)])
        sys.stderr.write(f"{task} seed {seed} {arm}: {shown}; {more[arm]}\n")
    found = compare_arms(curves)
    return {"seed": seed, "curves": curves, "arms": {arm: found[arm] | more[arm] for arm in arms}}


def summarise(seeds: Sequence[Mapping[str, Any]], arms: Sequence[str]) -> dict[str, Any]:
    """Means over seeds, with the lowest and the highest; a ratio that a seed has not reached makes the mean `null`."""
    rows: dict[str, Any] = {}
    for arm in arms:
        found = [seed["arms"][arm] for seed in seeds]
        rows[arm] = {"accuracy": _spread([each["accuracy"] for each in found])}
        rows[arm] |= {f"ratio_{share}": _spread([each["ratio"][str(share)] for each in found]) for share in SHARES}
        rows[arm] |= {name: _spread([each[name] for each in found]) for name in ("without_variance", "rounds")}
    return rows


def _spread(values: Sequence[float | None]) -> dict[str, float | None]:
    known = [value for value in values if value is not None]
    whole = len(known) == len(values)
    return (
        {"mean": statistics.fmean(known) if whole else None, "low": min(known, default=None), "high": max(known)}
        | {"reached": len(known)}
        if known
        else {"mean": None, "low": None, "high": None, "reached": 0}
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=tuple(CONFIGS), default="demo")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--rollouts", type=int, default=20_480)
    parser.add_argument("--json", action="store_true", help="print the JSON line alone on stdout (always the last)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    arms = given.arms.split(",")
    with tempfile.TemporaryDirectory() as folder:
        seeds = [run_seed(given.task, int(seed), arms, given.rollouts, Path(folder)) for seed in given.seeds.split(",")]
    summary = {"task": given.task, "rollouts": given.rollouts, "arms": summarise(seeds, arms), "seeds": seeds}
    sys.stdout.write(json.dumps(summary) + "\n")


if __name__ == "__main__":
    main()
