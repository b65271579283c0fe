"""Trains one run in this process, and asks the monitors after each round as the pipeline does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from benchmarks.monitors.rewards import LENGTH, Case, make_tasks
from mlops.runs.results import make_history
from rlft.config import Config, WarmStartConfig
from rlft.engines.base import Engine
from rlft.engines.transformers_engine import TransformersEngine
from rlft.environments.contract.base import BaseEnv
from rlft.evaluation.diagnosis.monitors import PAID_ATTACKS, Alarm, watch
from rlft.evaluation.evaluate import evaluate_rollouts
from rlft.evaluation.metrics import round_metrics
from rlft.harness.rollout import PolicyPlayer, SamplingSettings, collect_rollouts
from rlft.iteration import run_round
from rlft.models import Policy
from rlft.models.origin import create_policy
from rlft.rewards.audit.matching import Matcher, paid_attacks
from rlft.rewards.scoring import score_rollouts
from rlft.training.imitation import run_sft
from rlft.types import EvaluationReport, TaskSet, TrainReport
from tests.factories import CHARACTERS

ROUNDS, EVERY = 24, 4  # rounds of a run, and how often it is validated
WARM = WarmStartConfig(demonstrations=200, steps=60, batch_size=32, learning_rate=5e-3)


@dataclasses.dataclass(frozen=True)
class Watched:
    """What became of a run: its curves, and the alarms by monitor, each the first time that it was raised.

    `right` is the share of right attempts on validation, before training and after each validation.
    """

    rounds: list[TrainReport]
    right: dict[int, float]
    reward: dict[int, float]
    alarms: dict[str, Alarm]


def settings(case: Case, seed: int) -> Config:
    """Return the config of a run."""
    pieces = ['<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'] if case.calls else []
    training = {"num_generations": 8, "tasks_per_round": 16, "learning_rate": 5e-3, "adam_beta2": 0.95, "max_kl": 1e9}
    policy = {
        "characters": CHARACTERS + "\n" * case.calls,
        "pieces": pieces,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    return Config.model_validate(
        {
            "name": "monitors",
            "seed": seed,
            "tasks": {"source": "jsonl", "path": "none"},
            "environment": {"name": "benchmarks.monitors.rewards:Scored"},
            "policy": {"from_scratch": policy, "device": "cpu"},
            "rollout": {"max_completion_length": 6 * LENGTH if case.calls else LENGTH},
            "training": {"rounds": ROUNDS, **training, **case.training},
            "monitors": {"honest": "right"},
        }
    )


def run(case: Case, seed: int) -> Watched:
    """Train a run, and watch it to its end, whatever is seen."""
    config, tasks, environment = settings(case, seed), make_tasks(case.answer, case.train), case.environment()
    policy, engine = create_policy(config.policy, seed=seed), TransformersEngine()
    warm = WARM.model_copy(update={"steps": case.steps})
    run_sft(policy, warm, tasks.split("train"), environment, seed=seed)
    matcher = Matcher({task.id: task for task in tasks.split("train")}, environment)
    reports: list[TrainReport] = []
    validations = {0: validate(policy, engine, environment, tasks, config)}
    alarms: dict[str, Alarm] = {}
    for number in range(ROUNDS):
        result = run_round(tasks, environment, policy, engine, config, round=number)
        metrics = round_metrics(result.rollouts, result.rewards) | result.report.metrics
        least = (reports[0].metrics if reports else metrics)["reward"]
        share, _ = paid_attacks(matcher, result.rollouts, result.rewards, least)
        reports.append(dataclasses.replace(result.report, metrics=metrics | {PAID_ATTACKS: share}))
        if (number + 1) % EVERY == 0:
            validations[number + 1] = validate(policy, engine, environment, tasks, config)
        for alarm in seen(config, reports, validations, case.weights, len(tasks.split("train"))):
            alarms.setdefault(alarm.monitor, alarm)
    right, reward = (
        {number: report.metrics[name].mean for number, report in validations.items() if name in report.metrics}
        for name in ("rewards/right", "reward")
    )
    return Watched(reports, right, reward, alarms)


def seen(
    config: Config,
    reports: list[TrainReport],
    validations: Mapping[int, EvaluationReport],
    weights: Mapping[str, float],
    train_tasks: int,
) -> list[Alarm]:
    """Return what the monitors see in the rounds so far."""
    history = dataclasses.replace(make_history(config, reports, validations, train_tasks), weights=weights)
    return watch(history, config.monitors.actions(), rounds=ROUNDS, validations=ROUNDS // EVERY)


def validate(policy: Policy, engine: Engine, environment: BaseEnv, tasks: TaskSet, config: Config) -> EvaluationReport:
    """Evaluate on the tasks for validation, sampled as in training: greedily the start is nearly always right."""
    engine.load_policy(policy)
    mine = tasks.split("validation")
    rollouts = collect_rollouts(
        mine,
        environment,
        PolicyPlayer(policy, engine),
        SamplingSettings(
            temperature=1.0,
            max_completion_length=config.rollout.max_completion_length,
            seed=config.seed,
            harness=config.harness,
        ),
        num_generations=1,
        round=0,
        label="evaluation",
    )
    rewards = score_rollouts(rollouts, tasks.by_id(), environment, config.reward)
    return evaluate_rollouts(rollouts, rewards, tasks)["validation"]


def summary(found: Watched) -> dict[str, Any]:
    """Return a run in numbers, as it is printed."""
    first, last = min(found.right), max(found.right)
    return {
        "reward": [round(found.reward[each], 3) for each in (first, last)],
        "right": [round(found.right[each], 3) for each in (first, last)],
        "alarms": {name: alarm.rounds for name, alarm in found.alarms.items()},
    }
