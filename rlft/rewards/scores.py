"""Asks an environment for the scores of rollouts, several side by side, and gives up on one that hangs.

They are asked for in threads, or in worker processes where the environment's code is apart.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from rlft.config.environment import RewardConfig, Workers
from rlft.environments.contract.base import BaseEnv, prompt_messages
from rlft.environments.contract.faults import failure_of
from rlft.environments.contract.loading import environment_of, isolation_of, pool_of, read_task, task_json
from rlft.environments.contract.marks import marked_steps, marked_weights
from rlft.environments.contract.several import specification_of
from rlft.environments.workers.child import Methods
from rlft.environments.workers.pool import Pool, WorkerEnded
from rlft.environments.workers.threads import MAX_LATE_IN_A_ROW, Job, Late, in_thread, run_bounded
from rlft.errors import RlftError
from rlft.harness.dialogue import printable
from rlft.outcome import Failure
from rlft.progress import Meter
from rlft.rewards.rubric import Scored, check_parts, check_steps, unscored
from rlft.rewards.specification.grader import Bill, pay_by
from rlft.types import Judging, Message, Rollout, Task, Trajectory, add_judging

CONSTANT = "I do not know."
"""What answers no task."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """As much of a rollout as a score needs, as a worker process gets it."""

    messages: tuple[Message, ...]
    state: dict[str, Any]
    truncated: bool


def is_async(environment: BaseEnv) -> bool:
    """Return whether `compute_reward`, or one of the marked rewards that it calls, is a coroutine function."""
    if getattr(environment.compute_reward, "__func__", None) is not BaseEnv.compute_reward:
        return inspect.iscoroutinefunction(environment.compute_reward)
    marked = (*marked_weights(environment), *marked_steps(environment))
    return any(inspect.iscoroutinefunction(getattr(environment, name)) for name in marked)


def trajectory_of(
    rollout: Rollout | _Attempt, task: Task, environment: BaseEnv, peers: Sequence[Sequence[Message]] = ()
) -> Trajectory:
    """Return the messages of the policy and its tools after the prompt, as `compute_reward` takes them.

    `peers` are the messages of each attempt of the group, with the prompt, where the reward compares them.
    Raises `ValueError` when the roles of the rollout's first messages are not those of the prompt that the environment
    gives this task.
    """
    roles = [message["role"] for message in prompt_messages(task, environment)]
    begins = [message["role"] for message in rollout.messages[: len(roles)]]
    if begins != roles:
        raise ValueError(f"the rollout begins with {begins}, the environment's prompt is {roles}")
    after = [messages[len(roles) :] for messages in peers]
    own = rollout.messages[len(roles) :]
    return Trajectory(own, task=task, state=rollout.state, truncated=rollout.truncated, peers=after)


async def ask(
    environment: BaseEnv,
    rollout: Rollout | _Attempt,
    task: Task,
    reached: list[str],
    *,
    in_threads: bool,
    bill: Bill | None = None,
    peers: Sequence[Sequence[Message]] = (),
) -> Scored:
    """Return the parts and the final answer of a rollout, or the failure of the environment's code.

    `reached` gets the name of each method that is called: the caller needs the last one where this never returns. With
    `in_threads` each method is called in a thread of its own, so that plain ones run side by side.
    `bill` gets what judges are asked, which is known of a score that is too late as well. `peers` are those of
    `trajectory_of`.
    """
    bill = Bill() if bill is None else bill
    pay_by(bill)
    reached.append("prompt")
    try:
        completion = trajectory_of(rollout, task, environment, peers)
        reached.append("compute_reward")
        parts = check_parts(await _call(environment.compute_reward, completion, task.answer, in_threads=in_threads))
        reached.append("compute_step_rewards")
        said = await _call(environment.compute_step_rewards, completion, task.answer, in_threads=in_threads)
        steps = check_steps(said, len(completion.turns))
        reached.append("final_answer")
        answer = await _call(environment.final_answer, completion, in_threads=in_threads)
        if answer is not None and not isinstance(answer, str):
            raise TypeError(f"returned {type(answer).__name__} {answer!r:.80}, not text or None")
        return Scored(parts, None if answer is None else printable(answer), steps=steps, judging=add_judging(bill))
    except GeneratorExit:
        raise
    except BaseException as error:  # SystemExit of the environment's code too: it must not end the run
        current = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and current is not None and current.cancelling():
            raise  # it is too late, and not the environment's own cancellation
        return Scored({}, failure=failure_of(reached[-1], error, task), judging=add_judging(bill))


async def _call(function: Callable[..., Any], *args: Any, in_threads: bool) -> Any:
    if in_threads:
        result, error = await in_thread(partial(_kept, function, args))
        if error is not None:
            raise error
    else:
        result = function(*args)
    return await result if inspect.isawaitable(result) else result


def _kept(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, BaseException | None]:
    """Return (result, None) or (None, what was raised): `in_thread` would make a RuntimeError of a SystemExit."""
    try:
        result = function(*args)
        # `BaseEnv.compute_reward` is a coroutine; the marked methods that it calls in this thread are plain.
        return asyncio.run(result) if inspect.iscoroutine(result) else result, None
    except BaseException as error:
        return None, error


ENDED = "WorkerEnded"
"""What the failure of an attempt that has ended its worker process says was raised."""

_MORE_MEMORY = "if it needs more memory, raise reward.memory_mib"


def reward_pool(environment: BaseEnv, workers: Workers, *, at_once: int) -> Pool:
    """Return the worker processes that score for an environment, as many as attempts are scored at the same time.

    A reward that compares attempts has one, whatever is asked for: each would ask its judge about the same group.
    """
    specification = specification_of(environment)
    if specification is not None and specification.compares:
        workers = workers.model_copy(update={"processes": 1})
    return pool_of(environment, f"{__name__}:open_rewards", {}, workers, setting="reward", processes=at_once)


async def ask_process(
    pool: Pool,
    attempt: Rollout,
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
    environment = environment_of(payload)

    async def score(argument: dict[str, Any]) -> dict[str, Any]:
        attempt = _Attempt(tuple(argument["messages"]), argument["state"], argument["truncated"])
        task, peers = read_task(argument["task"]), argument["peers"]
        return asdict(await ask(environment, attempt, task, [], in_threads=False, peers=peers))

    return {"score": score}


logger = logging.getLogger(__name__)
ASYNC_CONCURRENCY = 8
"""How many rollouts an `async def` scores side by side unless the config says how many."""


class RewardHangs(RlftError):
    """Raised when no score returns: waiting for more of them is pointless."""


_Found = tuple[Scored, float]  # a score, and the seconds that it took


@dataclass
class Scores:
    """Holds how an environment is asked for scores, and how many of them were lost: too late, or with their process."""

    environment: BaseEnv
    tasks: Mapping[str, Task]
    settings: RewardConfig
    lost: int = 0
    reached: dict[str, list[str]] = field(default_factory=dict)  # {rollout id: names of the methods that were called}
    peers: Mapping[str, Sequence[Rollout]] = field(default_factory=dict)  # {rollout id: its group}, where it matters
    bills: dict[str, Bill] = field(default_factory=dict)  # {rollout id: what judges were asked}, of this process

    def of(self, rollouts: Sequence[Rollout], meter: Meter) -> list[tuple[Rollout, Scored, float]]:
        """Return each rollout with its score and the seconds that this took, in the order of `rollouts`.

        Raises RewardHangs when the first scores are all lost. A policy some of whose answers hang or end their process
        loses these rollouts; that alone does not stop a run.
        """
        found: dict[int, _Found] = {
            place: (failed, 0.0) for place, each in enumerate(rollouts) if (failed := unscored(each)) is not None
        }
        if found:
            meter.add(len(found))
        places = [place for place in range(len(rollouts)) if place not in found]
        jobs = [self.job(rollouts[place], self.tasks[rollouts[place].task_id]) for place in places]
        for ended, (number, outcome) in enumerate(self.run(jobs), start=1):
            self.lost += _is_lost(outcome)
            rollout, place = rollouts[places[number]], places[number]
            found[place] = self._lateness(rollout, outcome) if isinstance(outcome, Late) else outcome
            meter.add()
            if ended == self.lost == MAX_LATE_IN_A_ROW:
                raise self._hangs(found[place][0].failure)
        return [(each, *found[place]) for place, each in enumerate(rollouts)]

    def _at_once(self) -> int:
        return self.settings.concurrency or (ASYNC_CONCURRENCY if is_async(self.environment) else 1)

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """Run the jobs of several scores, and yield (place, outcome) as each ends."""
        if self._pool is None:
            return run_bounded(jobs, self.environment, at_once=self._at_once(), seconds=self.settings.timeout_seconds)
        return run_bounded(jobs, self._pool, at_once=self._at_once())  # the pool keeps the limit itself

    @cached_property
    def _pool(self) -> Pool | None:
        if isolation_of(self.environment, self.settings) == "thread":
            return None
        return reward_pool(self.environment, self.settings, at_once=self._at_once())

    def _in_threads(self) -> bool:
        return self._at_once() > 1 and not is_async(self.environment)

    def job(self, rollout: Rollout, task: Task) -> Job:
        """Return the job that scores a rollout. What it comes to is a `_Found`, or `Late`."""
        reached, bill = ["compute_reward"], Bill()
        self.reached[rollout.rollout_id], self.bills[rollout.rollout_id] = reached, bill

        peers = [each.messages for each in self.peers.get(rollout.rollout_id, ())]

        async def score() -> _Found | Late:
            started = time.perf_counter()
            if (pool := self._pool) is None:
                in_threads = self._in_threads()
                scored = await ask(
                    self.environment, rollout, task, reached, in_threads=in_threads, bill=bill, peers=peers
                )
            else:
                try:
                    limits = (self.settings.timeout_seconds, self.settings.memory_mib)
                    scored = await ask_process(pool, rollout, task, *limits, peers)
                except Late as late:
                    return late
            return scored, time.perf_counter() - started

        return score

    def _lateness(self, rollout: Rollout, late: Late) -> _Found:
        seconds = self.settings.timeout_seconds
        if self.lost == 1:
            logger.warning("a score did not come within %g s; it becomes an error of its rollout", seconds)
        where = self.reached[rollout.rollout_id][-1]
        why = str(late).replace("no result", "ScoringTimeout: no score", 1)
        return Scored({}, failure=Failure(where, why), judging=add_judging(self.bills[rollout.rollout_id])), seconds

    def _hangs(self, last: Failure | None) -> RewardHangs:
        ends = last is not None and last.raised == ENDED
        return RewardHangs(
            f"the reward {'ends its worker process' if ends else 'hangs'}: the first {self.lost} scores have no result"
            f"{f', the last as {last.why}' if last else ''}",
            where="compute_reward",
            fix="look for endless loops and for what it keeps in memory, see whether what it waits for (a judge, a "
            "server) is up, or raise reward.timeout_seconds or reward.memory_mib",
        )


def _is_lost(outcome: _Found | Late) -> bool:
    """Return whether a score was too late or ended its process."""
    return isinstance(outcome, Late) or (outcome[0].failure is not None and outcome[0].failure.raised == ENDED)
