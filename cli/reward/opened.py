"""The config and its tasks, as the commands of `rlft reward` need them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlft.config.code import code_of
from rlft.errors import ConfigError, TaskError
from rlft.files import RLFT_FOLDER
from rlft.reporting.terminal import errors

if TYPE_CHECKING:
    from rlft.config import Config
    from rlft.environments.contract.base import BaseEnv
    from rlft.rewards.specification.model import Specification
    from rlft.types import Task


def specification_in(config: Config) -> Specification:
    """Return the specification of a config. Raises ConfigError where the reward is code, or there are several."""
    _check_single(config)
    if config.reward.spec is None:
        raise ConfigError(
            "the reward of this config is code, not a specification",
            where="reward.spec",
            fix="write one (docs/guide/reward-specification.md); `rlft audit` attacks either kind",
        )
    return config.reward.spec


def reaches(config: Config) -> list[str]:
    """Return a sentence for each file of code that the reward of a config runs here, and for where it sends a key.

    Code of rlft itself is left out, and so are the files that such a file imports.
    """
    named = (each.file for each in code_of(config) if each.setting in ("environment.name", "reward.spec"))
    files = dict.fromkeys(file.resolve() for file in named if file is not None and file.is_file())
    said = [f"This runs the code in {each}." for each in files if not each.is_relative_to(RLFT_FOLDER)]
    if (spec := config.reward.spec) is None:
        return said
    if (judge := spec.judge) is not None and judge.api_key is not None:
        said.append(f"This sends the key in ${judge.api_key.removeprefix('env:')} to {judge.endpoint}.")
    return said


def open_reward(config: Config) -> BaseEnv:
    """Load the environment of a config, and say before that whose code it is and where a key is sent, on stderr.

    Raises EnvironmentSetupError and ConfigError as `load_environment` does.
    """
    from rlft.environments.contract.loading import load_environment

    _check_single(config)
    for line in reaches(config):
        errors.print(line)
    return load_environment(config.environment.name, config.environment.kwargs)


def _check_single(config: Config) -> None:
    if config.environments:
        raise ConfigError(
            f"this config has several environments, each with a reward of its own: {', '.join(config.environments)}",
            where="environments",
            fix="give a config with one `environment`; `rlft audit` attacks the rewards of all",
        )


def tasks_of(config: Config) -> Sequence[Task]:
    """Read all tasks of a config. Raises TaskError and ConfigError where that fails."""
    from rlft.reporting.bars import Display
    from rlft.tasks import ingest_tasks

    name, seed = config.environment.name, config.tasks.seed
    with Display().stage("tasks") as progress:
        return ingest_tasks(config.tasks, environment=name, seed=seed, progress=progress).tasks


def find_task(tasks: Sequence[Task], task_id: str | None) -> Task:
    """Return the task of this id, or the first train task. Raises TaskError if there is none."""
    if task_id is None:
        return next((task for task in tasks if task.split == "train"), tasks[0])
    if found := next((task for task in tasks if task.id == task_id), None):
        return found
    fix = f"give the id of one, such as {tasks[0].id}, or no --task"
    raise TaskError(f"there is no task {task_id!r}", where="--task", fix=fix)
