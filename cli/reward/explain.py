"""`rlft reward explain`: a written reward in words, with one attempt scored criterion by criterion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cli.guard import guarded
from cli.options import ConfigPath, Overrides, ResultAsJson, Verbose
from cli.reward.opened import find_task, open_reward, specification_in, tasks_of
from cli.reward.tried import try_attempt
from rlft.config.file import load_config
from rlft.errors import RlftError
from rlft.reporting.terminal import console

if TYPE_CHECKING:
    from cli.reward.tried import Tried
    from rlft.config import Config
    from rlft.types import Task


def explain(
    config: ConfigPath, overrides: Overrides = None, as_json: ResultAsJson = False, verbose: Verbose = False
) -> None:
    """Say in words what a written reward pays for, and score one attempt, the gold of a task.

    Without the data, the words alone. The exit code is 2 if the data lack a column that is named.
    """
    with guarded(verbose, None):
        settings = load_config(config, overrides)
        from rlft.rewards.specification.scoring import check_columns
        from rlft.rewards.specification.words import in_words

        specification = specification_in(settings)
        words = in_words(specification, settings.reward.weights)
        tasks, why = _tasks(settings)
        if not as_json:
            console.print(words)
        check_columns(specification, tasks)
        example, why = _example(settings, tasks) if tasks else (None, why)
        if as_json:
            content = {"words": words, "example": example and example.to_json(), "no_example": why or None}
            console.write_json(content)
        elif example is None:
            console.print(f"\nThere is no example: {why}")
        else:
            console.print(f"\nFor example, this attempt at task {example.task.id}:\n\n{example.text}\n")
            example.show()


def _tasks(config: Config) -> tuple[Sequence[Task], str]:
    """Return the tasks, or none and why they cannot be read."""
    try:
        return tasks_of(config), ""
    except RlftError as error:
        return (), str(error)


def _example(config: Config, tasks: Sequence[Task]) -> tuple[Tried | None, str]:
    """Return the gold attempt at the first train task, scored; or why there is none."""
    try:
        environment = open_reward(config)
        task = find_task(tasks, None)
        gold = environment.gold_completion(task)
        if gold is None:
            return None, f"task {task.id} has no gold completion"
        return try_attempt(config, environment, gold, task), ""
    except RlftError as error:
        return None, str(error)
