"""Gets the scores of many rollouts from an environment, several side by side, and gives up on one that hangs."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rlft.contract.base import BaseEnv
from rlft.contract.isolated import isolation_of
from rlft.errors import RlftError
from rlft.outcome import Failure
from rlft.progress import Meter
from rlft.rewards.attempt import Scored, ask, is_async
from rlft.rewards.harmless import harmless_rollouts
from rlft.rewards.one_rollout import unscored
from rlft.rewards.remote import ENDED, ask_process, reward_pool
from rlft.specification.billing import Bill
from rlft.types import Rollout, Task
from rlft.workers.bounded import MAX_LATE_IN_A_ROW, Job, Late, run_bounded
from rlft.workers.pool import Pool
from rlft.workers.settings import Workers

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
