"""Chooses the demonstrations of supervised fine-tuning: a file's, or the environment's for some of the train tasks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rlft.config import HarnessConfig, WarmStartConfig
from rlft.config.workers import Isolation
from rlft.environments.contract.base import BaseEnv, prompt_messages
from rlft.environments.contract.faults import calling
from rlft.environments.contract.several import Several
from rlft.errors import TaskError
from rlft.harness.scripted import Part, Script, as_script, play_scripts
from rlft.messages import MessageError
from rlft.progress import Progress, silent
from rlft.tasks.curriculum.epochs import turns_of
from rlft.tasks.splits import sample_tasks
from rlft.texts.characters import visible
from rlft.training.demonstration_file import Demonstration, read_demonstrations
from rlft.types import Rollout, Task

logger = logging.getLogger(__name__)


Answers = Literal["gold", "demonstration", "file"]


def choose_demonstrations(
    settings: WarmStartConfig,
    tasks: Sequence[Task],
    environment: BaseEnv,
    *,
    shares: Mapping[str, float] | None = None,
    isolation: Isolation | None = None,
    progress: Progress = silent,
) -> list[Demonstration]:
    """Return at most `settings.demonstrations`, from `settings.path` or else from the environment for train tasks.

    The environment's are for a sample of the tasks, since the first rows of a file may all be of one kind. With
    `shares` each of several environments has its share of them, or all of its tasks if these are fewer. They are played
    through its tools like a policy's answers, which run where `isolation` says. Tasks without one are left out.

    Raises TaskError if there are none at all, or if one cannot be read or played.
    """
    if settings.path is not None:
        return read_demonstrations(Path(settings.path), settings.demonstrations)
    said = [(task, _shown(task, environment)) for task in _sample(tasks, settings.demonstrations, shares)]
    found = _play(said, environment, isolation, progress)
    if not found:
        raise TaskError(
            "no train task has a gold answer to show",
            where="warm_start",
            fix="give warm_start.path with messages, define gold_completion in the environment, or remove warm_start",
        )
    return found


def _sample(tasks: Sequence[Task], limit: int, shares: Mapping[str, float] | None) -> Sequence[Task]:
    if shares is None:
        return sample_tasks(tasks, limit)
    counts, _ = turns_of(shares, limit, 0)
    own = {name: [task for task in tasks if task.environment == name] for name in shares}
    chosen = {task.id for name, count in counts.items() for task in sample_tasks(own[name], count)}
    return [task for task in tasks if task.id in chosen]


def all_demonstrations(
    settings: WarmStartConfig | None,
    tasks: Sequence[Task],
    environment: BaseEnv,
    *,
    most: int | None = None,
    isolation: Isolation | None = None,
    progress: Progress = silent,
) -> dict[Answers, list[Demonstration]]:
    """Return all that can be shown, at most `most`, by whose answers these are.

    `gold` has the rows of the warm start's file, then each task's gold completion, or the environment's demonstration
    where there is none; `demonstration` the reverse, and `file` the rows alone. None is the best to imitate in general:
    a demonstration may be there to show less than what is to be learnt, and a gold completion may be a bare answer.
    What would be the same as another is left out, and so is what is empty. Raises TaskError if one cannot be read or
    played.
    """
    rows: list[Demonstration] = []
    if settings is not None and settings.path is not None:
        rows = read_demonstrations(Path(settings.path), min(settings.demonstrations, most or settings.demonstrations))
    missing = None if most is None else most - len(rows)
    golds = [(task, _first_of(task, environment, _gold, _shown)) for task in tasks] if missing != 0 else []
    chosen = {task.id for task in sample_tasks([task for task, said in golds if said is not None], missing)}
    gold = [(task, said) for task, said in golds if task.id in chosen]
    shown = [(task, _first_of(task, environment, _shown, _gold)) for task, _ in gold]
    found: dict[Answers, list[Demonstration]] = {}
    if gold:
        found["gold"] = rows + _play(gold, environment, isolation, progress)
    if [_script(said, task) for task, said in gold] != [_script(said, task) for task, said in shown]:
        found["demonstration"] = rows + _play(shown, environment, isolation, progress)
    return {**found, "file": rows} if rows else found


def can_demonstrate(settings: WarmStartConfig | None, tasks: Sequence[Task], environment: BaseEnv) -> bool:
    """Return whether there is anything to show: a file of the warm start, or an answer to any of the tasks."""
    has_file = settings is not None and settings.path is not None
    return has_file or any(_first_of(task, environment, _shown, _gold) is not None for task in tasks)


def _first_of(task: Task, environment: BaseEnv, *ask: Callable[[Task, BaseEnv], Any]) -> Any:
    """Return the first answer to a task that there is, in the order in which it is asked for; `None` without any."""
    answers = (each(task, environment) for each in ask)
    return next((said for said in answers if said is not None), None)


def _gold(task: Task, environment: BaseEnv) -> Any:
    with calling("gold_completion", task):
        return environment.gold_completion(task)


def _shown(task: Task, environment: BaseEnv) -> Any:
    with calling("demonstration", task):
        return environment.demonstration(task)


def _play(
    said: Sequence[tuple[Task, Any]], environment: BaseEnv, isolation: Isolation | None, progress: Progress
) -> list[Demonstration]:
    """Return what was said to each task, with what the tools answered; tasks to which nothing was said are left out."""
    parts = [Part(f"shown/{task.id}", task, _script(given, task)) for task, given in said if given is not None]
    played = play_scripts(parts, environment, HarnessConfig(isolation=isolation), progress=progress)
    _warn_of_failed_calls(played)
    return [_demonstration(rollout, environment, part.task) for rollout, part in zip(played, parts, strict=True)]


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
    own = task.environment if isinstance(environment, Several) else ""
    return Demonstration(prompt, rollout.messages[len(prompt) :], own)
