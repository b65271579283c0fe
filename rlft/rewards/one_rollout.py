"""Scores one stored rollout: calls the environment's reward in a worker thread, and adds the parts up."""

from __future__ import annotations

import inspect
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlft.contract.base import BaseEnv, prompt_messages
from rlft.contract.faults import failure_of
from rlft.harness.tools import printable
from rlft.outcome import Failure
from rlft.rewards.harmless import harmless_rollouts
from rlft.rewards.rubric import (
    TOLERANCE,
    Parts,
    beyond_bounds,
    check_parts,
    combine,
    full_total,
    weighed_names,
)
from rlft.rewards.worker import RewardHangs, RewardWorker, ScoringTimeout
from rlft.types import Reward, Rollout, Task, Trajectory

log = logging.getLogger(__name__)

_SCORE_ONE = "return a number for a part that is paid (None: is a `return` missing?), 0 where nothing was earned"


class _ScoreError(Exception):
    """Raised where scoring a rollout fails; holds the `Failure` to be stored with it."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))


@dataclass(frozen=True, slots=True)
class Rubric:
    """Holds how parts add up: their weights and maxima, and the total that counts as solved (`None`: the full one)."""

    weights: Mapping[str, float]
    maxima: Mapping[str, float]
    full: float | None


def score_rollout(
    rollout: Rollout,
    task: Task,
    environment: BaseEnv,
    worker: RewardWorker,
    rubric: Rubric,
    timeout_seconds: float,
) -> Reward:
    """Return the reward of a rollout of this task; whatever fails in scoring it is the reward's `error`.

    Raises `RewardHangs` when the worker has seen too many late scores in a row and harmless answers are late too.
    """
    started = time.perf_counter()
    total, parts, solved, answer, error = None, Parts(), False, None, None
    try:
        parts, answer = _parts_and_answer(rollout, task, environment, worker, timeout_seconds)
        total, solved = _total(parts, rubric)
    except _ScoreError as failed:
        error = failed.failure
    return Reward(
        rollout_id=rollout.rollout_id,
        task_id=rollout.task_id,
        total=total,
        parts=parts,
        solved=solved,
        answer=answer,
        error=error,
        seconds=time.perf_counter() - started,
    )


def trajectory_of(rollout: Rollout, task: Task, environment: BaseEnv) -> Trajectory:
    """Return the messages of the policy and its tools after the prompt, as `compute_reward` takes them.

    Raises `ValueError` when the roles of the rollout's first messages are not those of the prompt that the environment
    gives this task.
    """
    roles = [message["role"] for message in prompt_messages(task, environment)]
    begins = [message["role"] for message in rollout.messages[: len(roles)]]
    if begins != roles:
        raise ValueError(f"the rollout begins with {begins}, the environment's prompt is {roles}")
    return Trajectory(rollout.messages[len(roles) :], task=task, state=rollout.state, truncated=rollout.truncated)


def _parts_and_answer(
    rollout: Rollout, task: Task, environment: BaseEnv, worker: RewardWorker, timeout_seconds: float
) -> tuple[Parts, str | None]:
    if rollout.error is not None:
        raise _ScoreError(replace(rollout.error, where="rollout", why=str(rollout.error), fix=""))
    reached = ["prompt"]
    try:
        completion = trajectory_of(rollout, task, environment)
        return worker.call(_ask, environment, completion, reached, timeout_seconds=timeout_seconds)
    except KeyboardInterrupt:
        raise
    except RewardHangs as error:
        if _hangs_on_anything(task, environment, worker, timeout_seconds):
            raise
        raise _ScoreError(Failure(reached[-1], f"ScoringTimeout: no score within {timeout_seconds:g} s")) from error
    except BaseException as error:  # SystemExit of the environment's code too: it must not end the run
        raise _ScoreError(failure_of(reached[-1], error, task)) from error


def _hangs_on_anything(task: Task, environment: BaseEnv, worker: RewardWorker, timeout_seconds: float) -> bool:
    """Return whether a harmless answer is not scored in time either, or none could be tried.

    A policy whose answers are each too slow to score loses these rollouts; that alone does not stop a run.
    """
    rollouts = harmless_rollouts(task, environment)
    for rollout in rollouts:
        completion = trajectory_of(rollout, task, environment)
        try:
            worker.call(_ask, environment, completion, [], timeout_seconds=timeout_seconds)
        except (ScoringTimeout, RewardHangs):
            return True
        except Exception as error:
            log.info("the harmless answer %s came to %r: the reward does not hang", rollout.rollout_id, error)
    return not rollouts


async def _ask(environment: BaseEnv, completion: Trajectory, reached: list[str]) -> tuple[Parts, str | None]:
    """Return the checked parts and the final answer; `reached` gets the name of each method that is called.

    A list, since the caller needs the last name also where this raises or is left behind.
    """
    reached.append("compute_reward")
    scores: Any = environment.compute_reward(completion, completion.task.answer)
    parts = check_parts(await scores if inspect.isawaitable(scores) else scores)
    reached.append("final_answer")
    answer: Any = environment.final_answer(completion)
    answer = await answer if inspect.isawaitable(answer) else answer
    if answer is not None and not isinstance(answer, str):
        raise TypeError(f"returned {type(answer).__name__} {answer!r:.80}, not text or None")
    return parts, None if answer is None else printable(answer)


def _total(parts: Parts, rubric: Rubric) -> tuple[float, bool]:
    """Return the total and whether it counts as solved. Raises _ScoreError for parts that have no total."""
    weights, maxima = rubric.weights, rubric.maxima
    if not any(parts[name] is not None for name in weighed_names(parts, weights)):
        raise _ScoreError(Failure("compute_reward", f"no part with a weight applies (parts: {parts})", _SCORE_ONE))
    if wrong := beyond_bounds(parts, weights, maxima):
        raise _ScoreError(wrong)
    try:
        total = combine(parts, weights, maxima)
    except ValueError as error:
        raise _ScoreError(Failure("compute_reward", str(error), _SCORE_ONE)) from error
    if not math.isfinite(total):
        raise _ScoreError(Failure("weights", f"the total of {parts} is {total}"))
    wanted = full_total(parts, weights, maxima) if rubric.full is None else rubric.full
    return total, total >= wanted - TOLERANCE * max(1.0, abs(wanted))
