"""Scores attempts in worker processes: what asks for a score, and what answers there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rlft.contract.base import BaseEnv
from rlft.contract.isolated import environment_of, pool_of, read_task, task_json
from rlft.outcome import Failure
from rlft.rewards.attempt import Attempted, Scored, ask
from rlft.types import Judging, Message, Task
from rlft.workers.child import Methods
from rlft.workers.pool import Pool
from rlft.workers.process import WorkerEnded
from rlft.workers.settings import Workers

ENDED = "WorkerEnded"
"""What the failure of an attempt that has ended its worker process says was raised."""

_MORE_MEMORY = "if it needs more memory, raise reward.memory_mib"


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An attempt as a worker process gets it."""

    messages: tuple[Message, ...]
    state: dict[str, Any]
    truncated: bool


def reward_pool(environment: BaseEnv, workers: Workers, *, at_once: int, in_threads: bool) -> Pool:
    """Return the worker processes that score for an environment, `at_once` attempts in all at the same time.

    A process runs one plain `compute_reward` at a time, unless there are fewer of them than attempts. One process is
    enough for coroutines.
    """
    processes = at_once if in_threads or at_once == 1 else 1
    options = {"in_threads": in_threads and (workers.processes or at_once) < at_once}
    return pool_of(environment, f"{__name__}:open_rewards", options, workers, setting="reward", processes=processes)


async def ask_process(
    pool: Pool,
    attempt: Attempted,
    task: Task,
    seconds: float,
    memory_mib: int | None,
    peers: Sequence[Sequence[Message]] = (),
) -> Scored:
    """Return the score of an attempt that a worker process gives. Raises Late if that takes so many seconds."""
    argument = {
        "messages": attempt.messages,
        "state": attempt.state,
        "truncated": attempt.truncated,
        "peers": peers,
        "task": task_json(task),
    }
    try:
        said: Mapping[str, Any] = await pool.call("score", lambda anew: argument, seconds=seconds)
    except WorkerEnded as ended:
        fix = "mend what ends it" + (f"; {_MORE_MEMORY}" if memory_mib else "")
        return Scored({}, failure=Failure("compute_reward", f"its worker process {ended}", fix, raised=ENDED))
    failure = said["failure"] and Failure(**said["failure"])
    if failure and failure.raised == "MemoryError" and memory_mib:
        failure = replace(failure, fix=_MORE_MEMORY)
    steps = {name: tuple(scores) for name, scores in said["steps"].items()}
    return Scored(said["parts"], said["answer"], failure, steps, said["judging"] and Judging(**said["judging"]))


async def open_rewards(payload: dict[str, Any]) -> Methods:
    """Make the environment in a worker process, and return what the process can be asked for."""
    environment, in_threads = environment_of(payload), payload["options"]["in_threads"]

    async def score(argument: dict[str, Any]) -> dict[str, Any]:
        attempt = _Attempt(tuple(argument["messages"]), argument["state"], argument["truncated"])
        task, peers = read_task(argument["task"]), argument["peers"]
        return asdict(await ask(environment, attempt, task, [], in_threads=in_threads, peers=peers))

    return {"score": score}
