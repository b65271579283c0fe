"""Gets the scores of many rollouts from an environment, several side by side, and gives up on one that hangs.

They are asked for in threads, or in worker processes where the environment's code is apart. Answers that no policy has
written tell a reward that hangs on every answer from one that hangs on some.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from rlft.config import HarnessConfig
from rlft.config.workers import Isolation, Workers
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.isolated import environment_of, isolation_of, pool_of, read_task, task_json
from rlft.environments.workers.bounded import MAX_LATE_IN_A_ROW, Job, Late, run_bounded
from rlft.environments.workers.child import Methods
from rlft.environments.workers.pool import Pool
from rlft.environments.workers.process import WorkerEnded
from rlft.errors import RlftError
from rlft.harness.scripted import Part, Script, as_script, play_scripts
from rlft.outcome import Failure
from rlft.progress import Meter
from rlft.rewards.attempt import Attempted, Scored, ask, is_async, unscored
from rlft.rewards.specification.judge import Bill
from rlft.types import Judging, Message, Rollout, Task

CONSTANT = "I do not know."


def harmless_rollouts(task: Task, environment: BaseEnv, isolation: Isolation) -> list[Rollout]:
    """Play a sentence that is no answer and, if there is one, the gold completion, with the environment's tools.

    Both are needed, since a reward may refuse the sentence without asking the judge or the sandbox that hangs. Rollouts
    that failed are left out. `isolation` says where the environment's code runs. Raises RlftError for an environment
    that hangs itself.
    """
    scripts = [as_script(CONSTANT), *_gold(task, environment)]
    parts = [Part(f"harmless/{number}/{task.id}", task, script) for number, script in enumerate(scripts)]
    return [
        rollout
        for rollout in play_scripts(parts, environment, HarnessConfig(isolation=isolation))
        if rollout.error is None
    ]


def _gold(task: Task, environment: BaseEnv) -> list[Script]:
    try:
        gold = environment.gold_completion(task)
        return [] if gold is None else [as_script(gold)]
    except Exception:  # the audit reports it; here the sentence alone must do
        return []


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


logger = logging.getLogger(__name__)
ASYNC_CONCURRENCY = 8
"""How many rollouts an `async def` scores side by side unless the config says how many."""


class RewardHangs(RlftError):
    """Raised when scores do not return again and again: waiting for more of them is pointless."""


_Found = tuple[Scored, float]  # a score, and the seconds that it took


@dataclass
class Scores:
    """Holds how an environment is asked for scores, and how many of them in a row have come too late."""

    environment: BaseEnv
    tasks: Mapping[str, Task]
    timeout_seconds: float
    workers: Workers
    lost_in_a_row: int = 0
    reached: dict[str, list[str]] = field(default_factory=dict)  # {rollout id: names of the methods that were called}
    peers: Mapping[str, Sequence[Rollout]] = field(default_factory=dict)  # {rollout id: its group}, where it matters
    bills: dict[str, Bill] = field(default_factory=dict)  # {rollout id: what judges were asked}, of this process

    def of(self, rollouts: Sequence[Rollout], meter: Meter) -> list[tuple[Rollout, Scored, float]]:
        """Return each rollout with its score and the seconds that this took, in the order of `rollouts`.

        Raises RewardHangs when several scores in a row were too late and harmless answers are late, too.
        """
        found: dict[int, _Found] = {
            place: (failed, 0.0) for place, each in enumerate(rollouts) if (failed := unscored(each)) is not None
        }
        if found:
            meter.add(len(found))
        while missing := [place for place in range(len(rollouts)) if place not in found]:
            last = self._score({place: rollouts[place] for place in missing}, found, meter)
            if last is not None:
                self._check_hangs(self.tasks[rollouts[last].task_id], found[last][0].failure)
        return [(each, *found[place]) for place, each in enumerate(rollouts)]

    def _score(self, missing: Mapping[int, Rollout], found: dict[int, _Found], meter: Meter) -> int | None:
        """Score rollouts and put what they come to into `found`; ends early at one that is lost as many before it.

        Its place is returned. What was still being scored is cancelled, and has to be asked for again.
        """
        places = list(missing)
        jobs = [self.job(each, self.tasks[each.task_id]) for each in missing.values()]
        for number, outcome in self.run(jobs):
            rollout = missing[places[number]]
            self.lost_in_a_row = self.lost_in_a_row + 1 if _is_lost(outcome) else 0
            found[places[number]] = self._lateness(rollout, outcome) if isinstance(outcome, Late) else outcome
            meter.add()
            if self.lost_in_a_row >= MAX_LATE_IN_A_ROW:
                return places[number]
        return None

    def _at_once(self) -> int:
        return self.workers.concurrency or (ASYNC_CONCURRENCY if is_async(self.environment) else 1)

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """Run the jobs of several scores, and yield (place, outcome) as each ends."""
        if self._pool is None:
            return run_bounded(jobs, self.environment, at_once=self._at_once(), seconds=self.timeout_seconds)
        return run_bounded(jobs, self._pool, at_once=self._at_once())  # the pool keeps the limit itself

    @cached_property
    def _pool(self) -> Pool | None:
        if isolation_of(self.environment, self.workers) == "thread":
            return None
        return reward_pool(self.environment, self.workers, at_once=self._at_once(), in_threads=self._in_threads())

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
                    limits = (self.timeout_seconds, self.workers.memory_mib)
                    scored = await ask_process(pool, rollout, task, *limits, peers)
                except Late as late:
                    return late
            return scored, time.perf_counter() - started

        return score

    def _lateness(self, rollout: Rollout, late: Late) -> _Found:
        seconds = self.timeout_seconds
        if self.lost_in_a_row == 1:
            logger.warning("a score did not come within %g s; it becomes an error of its rollout", seconds)
        where = self.reached[rollout.rollout_id][-1]
        why = str(late).replace("no result", "ScoringTimeout: no score", 1)
        return Scored({}, failure=Failure(where, why), judging=self.bills[rollout.rollout_id].total), seconds

    def _check_hangs(self, task: Task, last: Failure | None) -> None:
        """Raise RewardHangs if harmless answers to a task are not scored either, or none could be tried.

        A policy whose answers each hang or end their process loses these rollouts; that alone does not stop a run.
        """
        harmless = harmless_rollouts(task, self.environment, isolation_of(self.environment, self.workers))
        for rollout in harmless:
            [(_, outcome)] = self.run([self.job(rollout, task)])
            if _is_lost(outcome):
                break
            logger.info("the harmless answer %s came to %s: the reward does not hang", rollout.rollout_id, outcome)
        else:
            if harmless:
                self.lost_in_a_row = 0
                return
        number, seconds = self.lost_in_a_row, self.timeout_seconds
        if last is not None and last.raised == ENDED:
            raise RewardHangs(
                f"the reward ends its worker process: {number} scores in a row have no result, the last as {last.why}",
                where="compute_reward",
                fix="mend what ends the process; if memory runs out, raise reward.memory_mib",
            )
        slow = f"{number} scores in a row took longer than {seconds:g} s"
        if last is not None and "MiB of memory" in last.why:
            raise RewardHangs(
                f"the reward takes ever more memory: {slow}{last.why[last.why.index(';') :]}",
                where="compute_reward",
                fix="look for what it keeps or builds up in memory; reward.isolation: process with reward.memory_mib "
                "bounds it",
            )
        raise RewardHangs(
            f"the reward hangs: {slow}",
            where="compute_reward",
            fix="look for endless loops in it, see whether what it waits for (a judge, a server) is up, or raise "
            "reward.timeout_seconds",
        )


def _is_lost(outcome: _Found | Late) -> bool:
    """Return whether a score was too late or ended its process."""
    return isinstance(outcome, Late) or (outcome[0].failure is not None and outcome[0].failure.raised == ENDED)
