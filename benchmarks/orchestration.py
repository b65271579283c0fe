"""What the pipeline costs: its wall time minus that of the same work as a plain loop, same seed, same process.

    python -m benchmarks.orchestration --json [--config configs/sums.yaml] [--set training.rounds=10]

Both sides do everything a run does, from tasks to the final evaluation. The pipeline side adds artifacts, lineage,
tracking, traces and the registry. The last line is one JSON object; progress goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from mlops.home.folder import find_home
from mlops.home.variables import quieten
from rlft.config import Config
from rlft.config.file import load_config
from rlft.types import Split

ROOT = Path(__file__).resolve().parents[1]
SPLITS: Sequence[Split] = ("gate", "test", "off_distribution")


class Plain:
    """The work of `pipelines/train.py` as function calls, without storage."""

    def __init__(self, config: Config) -> None:
        from rlft.engines.transformers_engine import TransformersEngine
        from rlft.environments.contract.base import prompt_messages
        from rlft.environments.contract.loading import load_environment
        from rlft.models.origin import create_policy
        from rlft.models.tokens import check_prompts
        from rlft.rewards.audit.rewards import audit_reward
        from rlft.tasks import ingest_tasks

        self.config = config
        self.environment = load_environment(config.environment.name, config.environment.kwargs)
        self.tasks = ingest_tasks(config.tasks, environment=config.environment.name, seed=config.tasks.seed)
        audit_reward(self.tasks.split("train"), self.environment, config.reward, seed=config.seed)
        self.policy = create_policy(config.policy, seed=config.seed)
        self.engine = TransformersEngine(config.rollout.batch_size)
        check_prompts(
            self.policy.tokenizer,
            [(task.id, prompt_messages(task, self.environment)) for task in self.tasks.tasks],
            max_completion_length=config.rollout.max_completion_length,
            context_length=self.policy.context_length,
        )

    def evaluate(self, splits: Sequence[Split], attempts: int, temperature: float, limit: int | None = None) -> None:
        """Attempt, score and measure tasks of some splits."""
        from rlft.evaluation.evaluate import evaluate_rollouts
        from rlft.harness.rollout import PolicyPlayer, SamplingSettings, collect_rollouts
        from rlft.rewards.scoring import score_rollouts
        from rlft.tasks.curriculum import tasks_of_splits

        self.engine.load_policy(self.policy)
        longest = self.config.rollout.max_completion_length
        rollouts = collect_rollouts(
            tasks_of_splits(self.tasks, splits, limit=limit),
            self.environment,
            PolicyPlayer(self.policy, self.engine),
            SamplingSettings(temperature=temperature, max_completion_length=longest, seed=self.config.seed),
            num_generations=attempts,
            round=0,
            label="evaluation",
        )
        rewards = score_rollouts(rollouts, self.tasks.by_id(), self.environment, self.config.reward)
        evaluate_rollouts(rollouts, rewards, self.tasks)

    def imitate(self) -> None:
        """Train the warm start, and evaluate it, if there is one."""
        from rlft.training.imitation import run_sft

        if self.config.warm_start:
            train = self.tasks.split("train")
            run_sft(self.policy, self.config.warm_start, train, self.environment, seed=self.config.seed)
            self.evaluate_last()

    def evaluate_last(self, splits: Sequence[Split] = SPLITS) -> None:
        """Evaluate as the run does at its end, and with `validation` between its rounds."""
        self.evaluate(splits, self.config.evaluation.num_generations, self.config.evaluation.temperature)


def run_plain(config: Config) -> dict[str, float]:
    """Return the seconds of the rounds and of the whole."""
    from rlft.iteration import run_round

    started = time.perf_counter()
    plain, baseline = Plain(config), config.baseline
    plain.evaluate_last()  # base
    plain.imitate()
    plain.evaluate(["validation"], baseline.num_generations, config.rollout.temperature, baseline.num_tasks)
    plain.evaluate_last(["validation"])
    rounds_started = time.perf_counter()
    for number in range(config.training.rounds):
        run_round(plain.tasks, plain.environment, plain.policy, plain.engine, config, round=number)
        if (number + 1) % config.evaluation.validate_every == 0 or number + 1 == config.training.rounds:
            plain.evaluate_last(["validation"])
    rounds = time.perf_counter() - rounds_started
    plain.evaluate_last()
    if config.controls != []:
        plain.imitate()
    return {"rounds": rounds, "total": time.perf_counter() - started}


def run_pipeline(config: Config) -> dict[str, float]:
    """The same through ZenML and MLflow, in a home of its own. Raises when the run did not finish its rounds."""
    from mlops.stacks.stack import connect

    home = find_home()
    connect(home, None)
    from mlops.runs.labels import make_labels
    from mlops.runs.resuming import pipeline_inputs, run_options
    from pipelines.train import train

    labels = make_labels(config.name, name=None, tags=[], commits={})
    started = time.perf_counter()
    train.with_options(run_name=labels.name, **run_options(config, labels))(**pipeline_inputs(config, labels, None))
    total = time.perf_counter() - started
    summary = json.loads((home.run_folder(labels.name) / "summary.json").read_text())
    if summary["rounds"] != config.training.rounds:
        raise RuntimeError(f"the pipeline made {summary['rounds']} rounds: {summary}")
    return {"rounds": summary["seconds"]["rounds"], "total": total}


def compare(config: Config, repeat: int) -> dict[str, float]:
    """Medians of both sides, turn by turn."""
    plain, pipeline = [], []
    for turn in range(repeat):
        plain.append(run_plain(config))
        sys.stderr.write(f"turn {turn}: plain {plain[-1]}\n")
        with tempfile.TemporaryDirectory() as folder:
            os.environ["RLFT_HOME"] = folder
            pipeline.append(run_pipeline(config))
        sys.stderr.write(f"turn {turn}: pipeline {pipeline[-1]}\n")

    def median(rows, key):
        return statistics.median(row[key] for row in rows)

    rounds = median(pipeline, "rounds") - median(plain, "rounds")
    total = median(pipeline, "total") - median(plain, "total")
    return {
        "seconds_per_round": rounds / config.training.rounds,
        "seconds": total,
        "share": total / median(pipeline, "total"),
        "pipeline_seconds": median(pipeline, "total"),
        "plain_seconds": median(plain, "total"),
        "rounds": config.training.rounds,
        "repeat": repeat,
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "sums.yaml")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print the JSON line alone on stdout (always the last)")
    arguments = parser.parse_args()
    quieten(False)
    logging.disable(logging.WARNING)
    result = compare(load_config(arguments.config, arguments.overrides), arguments.repeat)
    if not arguments.json:
        sys.stdout.write("".join(f"{key:20} {value:.3f}\n" for key, value in result.items()))
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
