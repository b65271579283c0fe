"""Which demonstrations supervised fine-tuning sees: a file's, or the gold answers of a sample of the train tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rlft.chat import open_chat
from rlft.config import WarmStartConfig
from rlft.environments.base import BaseEnv, prompt_messages
from rlft.errors import TaskError
from rlft.harness.scripted import Part, Script, as_script, play_scripts
from rlft.harness.stage import Limits, open_stage
from rlft.messages import MessageError
from rlft.policy import Policy
from rlft.secrets import hiding
from rlft.tasks.splits import sample_tasks
from rlft.training.warm_start import Demonstration, SftReport, read_demonstrations, train_sft
from rlft.types import Rollout, Task


def choose_demonstrations(
    settings: WarmStartConfig, tasks: Sequence[Task], environment: BaseEnv
) -> list[Demonstration]:
    """Demonstrations from `settings.path`, else the environment's for a sample of the train tasks.

    Raises TaskError when there are none.
    """
    if settings.path is not None:
        return read_demonstrations(Path(settings.path))[: settings.demonstrations]
    with hiding():
        shown = [(task, environment.demonstration(task)) for task in sample_tasks(tasks, settings.demonstrations)]
    parts = [Part(f"shown/{task.id}", task, _script(said, task)) for task, said in shown if said is not None]
    found = [_demonstration(rollout, environment, part.task) for rollout, part in _played(parts, environment)]
    if not found:
        raise TaskError(
            "no train task has a gold answer to show",
            where="warm_start",
            fix="give warm_start.path with messages, define gold_completion in the environment, or remove warm_start",
        )
    return found


def _script(said: Any, task: Task) -> Script:
    try:
        return as_script(said)
    except MessageError as error:
        raise TaskError(
            f"its demonstration cannot be read: {error}", where=f"task {task.id}", fix="mend it in the environment"
        ) from error


def _played(parts: Sequence[Part], environment: BaseEnv) -> Iterable[tuple[Rollout, Part]]:
    return zip(play_scripts(parts, environment), parts, strict=True)


def _demonstration(rollout: Rollout, environment: BaseEnv, task: Task) -> Demonstration:
    if rollout.error is not None:
        raise TaskError(f"its gold answer cannot be shown: {rollout.error}", where=f"task {task.id}")
    prompt = prompt_messages(task, environment)
    return Demonstration(prompt, rollout.messages[len(prompt) :])


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
    stage = open_stage(environment, Limits())
    chat = open_chat(policy.tokenizer, tuple(stage.tools.values()), multi_turn=stage.max_turns > 1)
    return train_sft(
        policy,
        choose_demonstrations(settings, tasks, environment),
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        warmup_steps=settings.warmup_steps,
        seed=seed,
        steps=settings.steps if seconds is None else None,
        seconds=seconds,
        chat=chat,
    )
