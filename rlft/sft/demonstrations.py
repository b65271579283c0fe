"""Chooses the demonstrations of supervised fine-tuning: a file's, or the environment's for some of the train tasks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlft.config import HarnessConfig, WarmStartConfig
from rlft.contract.base import BaseEnv, prompt_messages
from rlft.contract.faults import calling
from rlft.errors import TaskError
from rlft.harness.scripted import Part, Script, as_script, play_scripts
from rlft.messages import MessageError
from rlft.progress import Progress, silent
from rlft.sft.demonstration_file import Demonstration, read_demonstrations
from rlft.tasks.splits import sample_tasks
from rlft.types import Rollout, Task
from rlft.visible import visible
from rlft.workers.settings import Isolation

logger = logging.getLogger(__name__)


def choose_demonstrations(
    settings: WarmStartConfig,
    tasks: Sequence[Task],
    environment: BaseEnv,
    *,
    isolation: Isolation | None = None,
    progress: Progress = silent,
) -> list[Demonstration]:
    """Return at most `settings.demonstrations`, from `settings.path` or else from the environment for train tasks.

    The environment's are for a sample of the tasks, since the first rows of a file may all be of one kind. They are
    played through its tools like a policy's answers, which run where `isolation` says. Tasks without one are left out.

    Raises TaskError if there are none at all, or if one cannot be read or played.
    """
    if settings.path is not None:
        return read_demonstrations(Path(settings.path), settings.demonstrations)
    shown = [(task, _shown(task, environment)) for task in sample_tasks(tasks, settings.demonstrations)]
    parts = [Part(f"shown/{task.id}", task, _script(said, task)) for task, said in shown if said is not None]
    played = list(
        zip(play_scripts(parts, environment, HarnessConfig(isolation=isolation), progress=progress), parts, strict=True)
    )
    _warn_of_failed_calls([rollout for rollout, _ in played])
    found = [_demonstration(rollout, environment, part.task) for rollout, part in played]
    if not found:
        raise TaskError(
            "no train task has a gold answer to show",
            where="warm_start",
            fix="give warm_start.path with messages, define gold_completion in the environment, or remove warm_start",
        )
    return found


def gives_demonstrations(tasks: Sequence[Task], environment: BaseEnv) -> bool:
    """Return whether the environment has a demonstration for any of the tasks."""
    return any(_shown(task, environment) is not None for task in tasks)


def _shown(task: Task, environment: BaseEnv) -> Any:
    with calling("demonstration", task):
        return environment.demonstration(task)


def _script(said: Any, task: Task) -> Script:
    try:
        return as_script(said)
    except MessageError as error:
        raise TaskError(
            f"its demonstration cannot be read: {error}", where=f"task {task.id}", fix="mend it in the environment"
        ) from error


def _warn_of_failed_calls(played: Sequence[Rollout]) -> None:
    """Warn of tool calls that failed, because a model that is shown such calls learns to make them."""
    if failed := [rollout for rollout in played if rollout.tool_errors]:
        told = next((m["content"] for m in failed[0].messages if m.get("failed")), "")
        logger.warning(
            "%d of %d demonstrations hold a tool call that failed, such as that of task %s: %s",
            len(failed),
            len(played),
            failed[0].task_id,
            f"{visible(told):.200}",
        )


def _demonstration(rollout: Rollout, environment: BaseEnv, task: Task) -> Demonstration:
    if rollout.error is not None:
        raise TaskError(f"its gold answer cannot be shown: {rollout.error}", where=f"task {task.id}")
    prompt = prompt_messages(task, environment)
    return Demonstration(prompt, rollout.messages[len(prompt) :])
