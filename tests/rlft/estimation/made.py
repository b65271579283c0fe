"""Configs and past runs that tests of estimates share."""

from __future__ import annotations

from typing import Any

from rlft.config import Config
from rlft.estimation.records import PastRun, PastStep
from rlft.estimation.span import Span, exactly


def make_config(**changes: Any) -> Config:
    """Return a config of 4 rounds of 2 tasks with 5 attempts each, with changes by section."""
    content: dict[str, Any] = {
        "name": "m",
        "tasks": {"source": "jsonl", "path": "t.jsonl"},
        "environment": {"name": "own.py:Own"},
        "policy": {"model": "x"},
        "training": {"rounds": 4, "tasks_per_round": 2, "num_generations": 5},
        "rollout": {"max_completion_length": 100},
        "evaluation": {"validate_every": 2, "pass_at_k": False},
        "controls": [],
    }
    for name, change in changes.items():
        content[name] = {**content.get(name, {}), **change} if isinstance(change, dict) else change
    return Config.model_validate(content)


def make_run(name: str = "first", slower: float = 1.0, **changes: Any) -> PastRun:
    """Return a past run of 2 rounds of 10 attempts, 30 tokens each: 4 s of sampling, 1 s of scoring, 2 s of training.

    Validation takes 3 s, an arm 6 s, setup 5 s, the rest 1 s; 20 % of the time lies between the steps.
    """
    config = make_config(training={"rounds": 2}, **changes)
    steps = [PastStep("ingest_tasks", 3 * slower), PastStep("audit_rewards", 2 * slower)]
    for number in range(2):
        steps += [
            PastStep(f"generate_rollouts_r00{number}", 4 * slower, 10, 300),
            PastStep(f"score_rewards_r00{number}", slower),
            PastStep(f"train_grpo_r00{number}", 2 * slower),
        ]
    for each, seconds in (("validation_r000", 2), ("validation_r002", 2), ("base", 4), ("trained", 4)):
        attempts = 7 if each.startswith("validation") else 20
        steps += [
            PastStep(f"generate_rollouts_{each}", seconds * slower, attempts, 20 * attempts),
            PastStep(f"score_rewards_{each}", seconds / 4 * slower),
            PastStep(f"evaluate_policy_{each}", seconds / 4 * slower),
        ]
    steps.append(PastStep("register_policy", slower))
    seconds = sum(step.seconds for step in steps) * 1.25
    return PastRun(name, config.model_dump(mode="json"), steps, seconds, memory=1e9)


def near(span: Span, low: float, high: float | None = None) -> bool:
    """Return whether a range has these ends."""
    expected = exactly(low) if high is None else Span(low, high)
    return abs(span.low - expected.low) < 1e-9 and abs(span.high - expected.high) < 1e-9
