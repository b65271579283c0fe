"""One attempt: asks an environment for the parts of its score, and makes its reward of them.

The first runs wherever the environment's code runs. The second adds the parts up, or says why there is no total.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from rlft.environments.contract.base import BaseEnv, prompt_messages
from rlft.environments.contract.faults import failure_of
from rlft.environments.contract.marks import marked_steps, marked_weights
from rlft.environments.workers.threads import in_thread
from rlft.harness.tools import printable
from rlft.outcome import Failure
from rlft.rewards.rubric import (
    TOLERANCE,
    Parts,
    beyond_bounds,
    check_parts,
    check_steps,
    combine,
    full_total,
    weighed_names,
)
from rlft.rewards.specification.judge import Bill, pay_by
from rlft.types import Judging, Message, Reward, Rollout, Task, Trajectory


@dataclass(frozen=True, slots=True)
class Scored:
    """Holds what an environment says of an attempt: the checked parts and the final answer, or why there are none.

    `steps` are the scores of the turns, by part, and `judging` is what judges were asked.
    """

    parts: Parts
    answer: str | None = None
    failure: Failure | None = None
    steps: dict[str, tuple[float | None, ...]] = field(default_factory=dict)
    judging: Judging | None = None


class Attempted(Protocol):
    """What is scored: a `Rollout`, or as much of one as a score needs."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole conversation, prompt first."""
        ...

    @property
    def state(self) -> dict[str, Any]:
        """The state that the rollout has left."""
        ...

    @property
    def truncated(self) -> bool:
        """Whether a limit cut it off."""
        ...


def is_async(environment: BaseEnv) -> bool:
    """Return whether `compute_reward`, or one of the marked rewards that it calls, is a coroutine function."""
    if getattr(environment.compute_reward, "__func__", None) is not BaseEnv.compute_reward:
        return inspect.iscoroutinefunction(environment.compute_reward)
    marked = (*marked_weights(environment), *marked_steps(environment))
    return any(inspect.iscoroutinefunction(getattr(environment, name)) for name in marked)


def trajectory_of(
    rollout: Attempted, task: Task, environment: BaseEnv, peers: Sequence[Sequence[Message]] = ()
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
    rollout: Attempted,
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
        return Scored(parts, None if answer is None else printable(answer), steps=steps, judging=bill.total)
    except GeneratorExit:
        raise
    except BaseException as error:  # SystemExit of the environment's code too: it must not end the run
        current = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and current is not None and current.cancelling():
            raise  # it is too late, and not the environment's own cancellation
        return Scored({}, failure=failure_of(reached[-1], error, task), judging=bill.total)


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


_SCORE_ONE = "return a number for a part that is paid (None: is a `return` missing?), 0 where nothing was earned"


@dataclass(frozen=True, slots=True)
class Rubric:
    """Holds how parts add up: weights, maxima, and the total that counts as solved (`None`: the full one).

    `minima` are those that the environment declares.
    """

    weights: Mapping[str, float]
    maxima: Mapping[str, float]
    full: float | None
    minima: Mapping[str, float] = field(default_factory=dict)


def make_reward(rollout: Rollout, scored: Scored, rubric: Rubric, seconds: float) -> Reward:
    """Return the reward of a rollout whose scoring took so many seconds; its `error` says why there is no total."""
    total, solved, failure = None, False, scored.failure
    if failure is None:
        try:
            total, solved = _total(scored.parts, rubric)
        except _ScoreError as failed:
            failure = failed.failure
    return Reward(
        rollout_id=rollout.rollout_id,
        task_id=rollout.task_id,
        total=total,
        parts=scored.parts,
        solved=solved,
        answer=scored.answer,
        error=failure,
        seconds=seconds,
        steps=scored.steps,
        judging=scored.judging,
    )


def bounded_total(parts: Parts, weights: Mapping[str, float], environment: BaseEnv) -> float:
    """Return the total of parts by these weights. Raises ValueError for a part out of the environment's bounds."""
    maxima = environment.reward_maxima()
    if wrong := beyond_bounds(parts, weights, maxima, environment.reward_minima()):
        raise ValueError(wrong.why)
    return combine(parts, weights, maxima)


def unscored(rollout: Rollout) -> Scored | None:
    """Return why a rollout that failed itself has no score; `None` for one that can be scored."""
    if rollout.error is None:
        return None
    return Scored({}, failure=replace(rollout.error, where="rollout", why=str(rollout.error), fix=""))


class _ScoreError(Exception):
    """Raised where parts have no total; holds the `Failure` to be stored with the rollout."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))


def _total(parts: Parts, rubric: Rubric) -> tuple[float, bool]:
    """Return the total and whether it counts as solved. Raises _ScoreError for parts that have no total."""
    weights, maxima = rubric.weights, rubric.maxima
    if not any(parts[name] is not None for name in weighed_names(parts, weights)):
        raise _ScoreError(Failure("compute_reward", f"no part with a weight applies (parts: {parts})", _SCORE_ONE))
    if wrong := beyond_bounds(parts, weights, maxima, rubric.minima):
        raise _ScoreError(wrong)
    try:
        total = combine(parts, weights, maxima)
    except ValueError as error:
        raise _ScoreError(Failure("compute_reward", str(error), _SCORE_ONE)) from error
    if not math.isfinite(total):
        raise _ScoreError(Failure("weights", f"the total of {parts} is {total}"))
    wanted = full_total(parts, weights, maxima) if rubric.full is None else rubric.full
    return total, total >= wanted - TOLERANCE * max(1.0, abs(wanted))
