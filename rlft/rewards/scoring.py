"""Scores stored rollouts by the environment's parts, weighted and checked. A rollout without a score is never a 0."""

from __future__ import annotations

import inspect
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from rlft.contract.base import BaseEnv, prompt_messages
from rlft.contract.faults import described, kind_of
from rlft.errors import ConfigError, EnvironmentSetupError, RewardError, TaskError
from rlft.harness.tools import printable
from rlft.outcome import Failure
from rlft.progress import Meter, Progress, silent
from rlft.rewards.harmless import harmless_rollouts
from rlft.rewards.rubric import (
    TOLERANCE,
    UNNAMED,
    WAY_OUT,
    Parts,
    beyond_bounds,
    check_maxima,
    check_parts,
    check_weights,
    combine,
    full_total,
    weighed_names,
    weight_of,
)
from rlft.rewards.worker import RewardHangs, RewardWorker, ScoringTimeout
from rlft.types import Reward, Rewards, Rollout, Rollouts, Task, Trajectory

log = logging.getLogger(__name__)


_SCORE_ONE = "return a number for a part that is paid (None: is a `return` missing?), 0 where nothing was earned"


class _ScoreError(Exception):
    """Raised where scoring a rollout fails; holds the `Failure` to be stored with it."""

    def __init__(self, where: str, why: str) -> None:
        self.failure = Failure(where, why)
        super().__init__(str(self.failure))


@dataclass(frozen=True, slots=True)
class _Rubric:
    """Holds how parts add up: their weights and maxima, and the total that counts as solved (`None`: the full one)."""

    weights: Mapping[str, float]
    maxima: Mapping[str, float]
    full: float | None


def score_rollouts(
    rollouts: Rollouts,
    tasks: Mapping[str, Task],
    environment: BaseEnv,
    *,
    weights: Mapping[str, float],
    full: float | None,
    timeout_seconds: float,
    progress: Progress = silent,
) -> Rewards:
    """Score every rollout with the environment's `compute_reward`, one after the other, and return them in this order.

    `tasks` maps task ids to tasks. `weights` maps parts to weights and overrides the environment's own (a part that
    neither names has the weight of `*`, or 1). `full` is the total that counts as solved; `None` means the total with
    every part that is paid at its maximum, which `reward_maxima` declares. `timeout_seconds` bounds each score.
    `compute_reward` runs in a thread with the environment's event loop.

    A reward that raises, takes too long, returns anything but finite numbers or pays a part more than its maximum
    leaves `total=None` and an `error` that says where and why, and so does a rollout that failed itself.

    Raises `TaskError` for a rollout of an unknown task, `ConfigError` for a weight whose part no rollout has,
    `EnvironmentSetupError` for weights or maxima of the environment that are none, `RewardError` when two attempts name
    different parts, so that their totals cannot be compared, and `RewardHangs` (an `RlftError`) when several scores in
    a row do not return and a harmless answer is not scored in time either.
    """
    started = time.perf_counter()
    given, weights = weights, {**_weights(environment), **weights}
    rubric = _Rubric(weights, _maxima(environment), full)
    rows: list[Reward] = []
    meter = Meter(progress, len(rollouts), "scores")
    with RewardWorker(environment) as worker:
        for rollout in rollouts:
            if rollout.task_id not in tasks:
                raise TaskError(
                    f"rollout {rollout.rollout_id} attempts task {rollout.task_id!r}, which is not among the tasks",
                    where="score_rollouts",
                    fix="score rollouts with the task set they were sampled from",
                )
            rows.append(_score(rollout, tasks[rollout.task_id], environment, worker, rubric, timeout_seconds))
            meter.add()
    _check_weights(rows, given)
    _check_comparable(rows, weights)
    _log_errors(rows)
    names = sorted({name for row in rows for name in row.parts} | (set(weights) - {UNNAMED}))
    return Rewards(
        rows=tuple(rows),
        weights={name: float(weight_of(name, weights)) for name in names},
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


def _score(
    rollout: Rollout,
    task: Task,
    environment: BaseEnv,
    worker: RewardWorker,
    rubric: _Rubric,
    timeout_seconds: float,
) -> Reward:
    started = time.perf_counter()
    total, parts, solved, answer, error = None, Parts(), False, None, None
    try:
        parts, answer = _parts_and_answer(rollout, task, environment, worker, timeout_seconds)
        total, solved = _total(parts, rubric)
    except _ScoreError as failure:
        error = failure.failure
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


def _parts_and_answer(
    rollout: Rollout, task: Task, environment: BaseEnv, worker: RewardWorker, timeout_seconds: float
) -> tuple[Parts, str | None]:
    if rollout.error is not None:
        raise _ScoreError("rollout", str(rollout.error))
    reached = ["prompt"]
    try:
        completion = trajectory_of(rollout, task, environment)
        return worker.call(_ask, environment, completion, reached, timeout_seconds=timeout_seconds)
    except KeyboardInterrupt:
        raise
    except RewardHangs as error:
        if _hangs_on_anything(task, environment, worker, timeout_seconds):
            raise
        raise _ScoreError(reached[-1], f"ScoringTimeout: no score within {timeout_seconds:g} s") from error
    except BaseException as error:  # SystemExit of the environment's code too: it must not end the run
        raise _ScoreError(reached[-1], described(error, task)) from error


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


def _total(parts: Parts, rubric: _Rubric) -> tuple[float, bool]:
    """Return the total and whether it counts as solved. Raises _ScoreError for parts that have no total."""
    weights, maxima = rubric.weights, rubric.maxima
    if not any(parts[name] is not None for name in weighed_names(parts, weights)):
        raise _ScoreError("compute_reward", f"no part with a weight applies (parts: {parts}){WAY_OUT}{_SCORE_ONE}")
    if wrong := beyond_bounds(parts, weights, maxima):
        raise _ScoreError("compute_reward", wrong)
    try:
        total = combine(parts, weights, maxima)
    except ValueError as error:
        raise _ScoreError("compute_reward", f"{error}{WAY_OUT}{_SCORE_ONE}") from error
    if not math.isfinite(total):
        raise _ScoreError("weights", f"the total of {parts} is {total}")
    wanted = full_total(parts, weights, maxima) if rubric.full is None else rubric.full
    return total, total >= wanted - TOLERANCE * max(1.0, abs(wanted))


def _weights(environment: BaseEnv) -> dict[str, float]:
    try:
        return check_weights(environment.reward_weights())
    except ValueError as error:
        fix = "return {part: weight}, such as {'correct': 1.0, 'form': 0.1}"
        raise EnvironmentSetupError(str(error), where="reward_weights", fix=fix) from error


def _maxima(environment: BaseEnv) -> dict[str, float]:
    try:
        return check_maxima(environment.reward_maxima())
    except ValueError as error:
        raise EnvironmentSetupError(
            str(error), where="reward_maxima", fix="return {part: what a full part earns}, such as {'points': 10.0}"
        ) from error


def _check_weights(rows: list[Reward], weights: Mapping[str, float]) -> None:
    """Raise ConfigError for a weight of the config whose part no rollout has."""
    known = sorted({name for row in rows for name in row.parts})
    for name in weights:
        if known and name not in known and name != UNNAMED:
            close = get_close_matches(name, known, cutoff=0.5)
            raise ConfigError(
                f"no rollout has a part named {name!r}",
                where="reward.weights",
                fix=(f"did you mean {' or '.join(close)}? " if close else "") + f"The parts are: {', '.join(known)}",
            )


def _check_comparable(rows: list[Reward], weights: Mapping[str, float]) -> None:
    """Raise RewardError if two scores have different parts with a weight."""
    scored = [row for row in rows if row.total is not None]
    for row in scored:
        odd = sorted(weighed_names(scored[0].parts, weights) ^ weighed_names(row.parts, weights))
        if odd:
            raise RewardError(
                f"one attempt has a part {odd[0]!r} and another has none (tasks {scored[0].task_id} and "
                f"{row.task_id}), so that their totals cannot be compared",
                where="compute_reward",
                fix=f"name {odd[0]!r} in every score: 0 where nothing was earned, None where it does not apply",
            )


def _log_errors(rows: list[Reward]) -> None:
    """Log each kind of error once, with how many rollouts and tasks it concerns."""
    failed: dict[tuple[str, ...], list[Reward]] = {}
    for row in rows:
        if row.error:
            failed.setdefault(kind_of(row.error), []).append(row)
    for found in failed.values():
        tasks = len({row.task_id for row in found})
        on = f"{tasks} task{'s' * (tasks > 1)}"
        log.warning("%d of %d rollouts, on %s, have no score: %s", len(found), len(rows), on, found[0].error)
