"""Configs and lines of a probe that tests of estimates share."""

from __future__ import annotations

from typing import Any

from rlft.config import Config
from rlft.estimation.estimate import Probed
from rlft.estimation.machine import Span


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


HELD = {"memory": 1e9, "gpu_memory": None}
BEFORE = [
    {"kind": "tasks", "seconds": 2.0, "validation": 10, "test": 20, "final": 50, **HELD},
    {"kind": "model", "seconds": 3.0, "memory": 1.5e9, "gpu_memory": None},
]


def make_round(attempts: int, seconds: float, **changes: Any) -> dict[str, Any]:
    """Return what a probe writes of a round that was sampled in so many seconds, scored in 0.5 and trained on in 2."""
    line = {"kind": "round", "attempts": attempts, "sample": seconds, "score": 0.5, "train": 2.0}
    return {**line, "tokens": 10 * attempts, "memory": 1.7e9, "gpu_memory": None, **changes}


def near(span: Span, low: float, high: float | None = None) -> bool:
    """Return whether a range has these ends."""
    high = low if high is None else high
    return abs(span.low - low) < 1e-9 * max(1, low) and abs(span.high - high) < 1e-9 * max(1, high)


def probed(*rounds: dict[str, Any]) -> Probed:
    """Return a probe of these rounds."""
    return Probed([*BEFORE, *rounds], 20.0)
