"""Which demonstrations supervised fine-tuning sees: a file's, or the gold answers of the first train tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlft.config import WarmStartConfig
from rlft.environments.base import BaseEnv, prompt_messages
from rlft.errors import TaskError
from rlft.policy import Policy
from rlft.training.warm_start import Demonstration, SftReport, read_demonstrations, train_sft
from rlft.types import Task


def choose_demonstrations(
    settings: WarmStartConfig, tasks: Sequence[Task], environment: BaseEnv
) -> list[Demonstration]:
    """Demonstrations from `settings.path`, else the environment's gold completions of the first train tasks.

    Raises TaskError when there are none.
    """
    if settings.path is not None:
        return read_demonstrations(Path(settings.path))[: settings.demonstrations]
    shown = [(task, environment.gold_completion(task)) for task in tasks[: settings.demonstrations]]
    found = [Demonstration(prompt_messages(task, environment), gold) for task, gold in shown if isinstance(gold, str)]
    if not found:
        raise TaskError(
            "no train task has a gold answer to show",
            where="warm_start",
            fix="give warm_start.path with messages, define gold_completion in the environment, or remove warm_start",
        )
    return found


def run_sft(
    policy: Policy,
    settings: WarmStartConfig,
    tasks: Sequence[Task],
    environment: BaseEnv,
    *,
    seed: int,
    seconds: float | None = None,
) -> SftReport:
    """Train `policy` in place: for the settings' steps, or for so many `seconds` as a control arm."""
    return train_sft(
        policy,
        choose_demonstrations(settings, tasks, environment),
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        warmup_steps=settings.warmup_steps,
        seed=seed,
        steps=settings.steps if seconds is None else None,
        seconds=seconds,
    )
