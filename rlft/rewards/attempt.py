"""Asks an environment for the parts of one attempt's score. This runs wherever the environment's code runs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from rlft.contract.base import BaseEnv, prompt_messages
from rlft.contract.faults import failure_of
from rlft.contract.marks import marked_steps, marked_weights
from rlft.harness.tools import printable
from rlft.outcome import Failure
from rlft.rewards.rubric import Parts, check_parts, check_steps
from rlft.specification.billing import Bill, pay_by
from rlft.types import Judging, Message, Task, Trajectory
from rlft.workers.threads import in_thread


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
