"""The worker processes of an environment, which last as long as it does, and how such a process makes it again."""

from __future__ import annotations

import json
from typing import Any

from rlft.config.environment import Isolation, Workers
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.loading import SOURCE, Source, load_environment
from rlft.environments.workers.pool import Pool, Program
from rlft.errors import ConfigError, EnvironmentSetupError
from rlft.texts.secrets import hide_in_output
from rlft.types import Task

_SLOT = "_rlft_pools"


def isolation_of(environment: BaseEnv, workers: Workers) -> Isolation:
    """Return where the environment's code runs: as the config says, else as the environment says."""
    return workers.isolation or environment.isolation


def pool_of(
    environment: BaseEnv, handler: str, options: dict[str, Any], workers: Workers, *, setting: str, processes: int
) -> Pool:
    """Return the worker processes that run `handler` with these options for an environment; the same ones again later.

    `setting` is the config's section that asks for them, `processes` their number if `workers` does not say it. Raises
    ConfigError for an environment that was not loaded by its name.
    """
    source: Source | None = environment.__dict__.get(SOURCE)
    if source is None:
        raise ConfigError(
            f"{type(environment).__name__} was made by a program, so a worker process cannot make it again",
            where=f"{setting}.isolation",
            fix="load it by its name (rlft.environments.contract.loading.load_environment), or set isolation to thread",
        )
    payload = {"name": source.name, "kwargs": source.kwargs, "module": source.module, "options": options}
    number = workers.processes or processes
    key = json.dumps([handler, options, number, workers.memory_mib], sort_keys=True)
    pools: dict[str, Pool] = environment.__dict__.setdefault(_SLOT, {})
    if key not in pools:
        pools[key] = Pool(Program(handler, payload, source.folder, workers.memory_mib), number)
    return pools[key]


def environment_of(payload: dict[str, Any]) -> BaseEnv:
    """Make the environment again in a worker process. Raises EnvironmentSetupError as `load_environment` does."""
    hide_in_output()  # of this process, which the run passes on as it is; before the environment's code is imported
    environment = load_environment(payload["name"], payload["kwargs"])
    if type(environment).__module__ != payload["module"]:
        raise EnvironmentSetupError(
            "its file has changed since the run began",
            where=payload["name"],
            fix="start the run again, so that all of it is done by the same code",
        )
    environment.__dict__["isolation"] = "thread"  # this is the worker process
    return environment


def task_json(task: Task) -> dict[str, Any]:
    """Return a task as the JSON object from which `read_task` makes it again."""
    return {name: getattr(task, name) for name in Task.__dataclass_fields__}


def read_task(content: dict[str, Any]) -> Task:
    """Return the task of a JSON object."""
    return Task(**{**content, "prompt": tuple(content["prompt"])})
