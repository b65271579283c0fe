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
from pathlib import Path

from mlops.home.folder import find_home
from mlops.home.variables import quieten
from rlft.config import Config
from rlft.config.file import load_config

ROOT = Path(__file__).resolve().parents[1]
SPLITS = ("gate", "test", "off_distribution")


def run_plain(config: Config) -> dict[str, float]:
    """The work of `pipelines/train.py` as function calls, without storage. Seconds of the rounds and of the whole."""
    from rlft.engines.transformers_engine import TransformersEngine
    from rlft.environments.contract.base import prompt_messages
    from rlft.environments.contract.loading import load_environment
    from rlft.evaluation.evaluate import evaluate_rollouts
    from rlft.harness.rollout import PolicyPlayer, SamplingSettings, collect_rollouts
    from rlft.iteration import run_round
    from rlft.models.origin import create_policy
    from rlft.models.tokens import check_prompts
    from rlft.rewards.audit.rewards import audit_reward
    from rlft.rewards.scoring import score_rollouts
    from rlft.tasks import ingest_tasks
    from rlft.tasks.curriculum import tasks_of_splits
    from rlft.training.imitation import run_sft

    started = time.perf_counter()
    environment = load_environment(config.environment.name, config.environment.kwargs)
    task_set = ingest_tasks(config.tasks, environment=config.environment.name, seed=config.tasks.seed)
    audit_reward(task_set.split("train"), environment, config.reward, seed=config.seed)
    policy = create_policy(config.policy, seed=config.seed)
    engine = TransformersEngine(config.rollout.batch_size)
    check_prompts(
        policy.tokenizer,
        [(task.id, prompt_messages(task, environment)) for task in task_set.tasks],
        max_completion_length=config.rollout.max_completion_length,
        context_length=policy.context_length,
    )

    def evaluate(splits, limit=None, num_generations=1, temperature=0.0):
        engine.load_policy(policy)
        rollouts = collect_rollouts(
            tasks_of_splits(task_set, splits, limit=limit),
            environment,
            PolicyPlayer(policy, engine),
            SamplingSettings(
                temperature=temperature,
                max_completion_length=config.rollout.max_completion_length,
                seed=config.seed,
            ),
            num_generations=num_generations,
            round=0,
            label="evaluation",
        )
        rewards = score_rollouts(rollouts, task_set.by_id(), environment, config.reward)
        evaluate_rollouts(rollouts, rewards, task_set)

    def final_evaluation():
        own = config.evaluation
        evaluate(SPLITS, num_generations=own.num_generations, temperature=own.temperature)

    def validate():
        own = config.evaluation
        evaluate(("validation",), num_generations=own.num_generations, temperature=own.temperature)

    final_evaluation()  # base
    if config.warm_start:
        run_sft(policy, config.warm_start, task_set.split("train"), environment, seed=config.seed)
        final_evaluation()
    own = config.baseline
    evaluate(("validation",), own.num_tasks, own.num_generations, config.rollout.temperature)
    validate()
    rounds_started = time.perf_counter()
    for number in range(config.training.rounds):
        run_round(task_set, environment, policy, engine, config, round=number)
        if (number + 1) % config.evaluation.validate_every == 0 or number + 1 == config.training.rounds:
            validate()
    rounds = time.perf_counter() - rounds_started
    final_evaluation()
    if config.warm_start and config.controls != []:
        run_sft(policy, config.warm_start, task_set.split("train"), environment, seed=config.seed)
        final_evaluation()
    return {"rounds": rounds, "total": time.perf_counter() - started}


def run_pipeline(config: Config) -> dict[str, float]:
    """The same through ZenML and MLflow, in a home of its own. Raises when the run did not finish its rounds."""
    from mlops.stacks.stack import connect

    home = find_home()
    connect(home, None)
    from mlops.runs.labels import make_labels
    from mlops.runs.resuming import pipeline_inputs, run_options
    from pipelines.train import train

    labels = make_labels(config.name, name=None, note=None, tags=[], commits={})
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
