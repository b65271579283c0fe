"""The contract of an environment: `BaseEnv`, which says with which tools a task may be attempted and scores attempts.

Three coroutines make an environment; all else has a default:

    class Capitals(rlft.BaseEnv):
        async def list_tools(self):
            return [{"name": "look_up", "description": "Read an article.", "parameters": {"title": "Its title."}}]

        async def run_tool(self, rollout_id, tool_name, **args):
            return ARTICLES.get(args["title"], "no such article")

        async def compute_reward(self, completion, ground_truth):
            return {"exact": float(completion.text.strip() == ground_truth)}

With the decorators of `rlft.environments.contract.marks` there is less to write.

A reward is a pure function of the task and the stored trajectory, so that any rollout can be scored again. What the
tools have to tell the reward they write into the rollout's `state`, which is JSON and stored with the rollout.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, cast

from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass

from rlft.config.environment import Isolation
from rlft.environments.contract.marks import (
    MAXIMUM,
    MINIMUM,
    TOOL,
    marked,
    marked_steps,
    marked_tools,
    marked_weights,
    taken,
)
from rlft.environments.workers.threads import in_thread
from rlft.errors import EnvironmentSetupError
from rlft.texts.secrets import hide_in, hiding
from rlft.types import Message, Task, Trajectory


@dataclass(frozen=True, slots=True, config=ConfigDict(strict=True, extra="forbid"))
class Context:
    """Holds what the model sees beside the task's own prompt; `BaseEnv.context` returns one, or the text of one.

    >>> from rlft import Context
    >>> Context(system_prompt="Answer with the city alone.").history
    'full'
    """

    system_prompt: str = ""
    """The content of the first message, of role `system`. There is no such message where it is empty."""
    history: Literal["full"] = "full"
    """Which earlier turns the model sees in a later one. `full`, all of them, is the only policy so far: with another
    one the tokens of a turn would not be a prefix of the next turn's."""


class BaseEnv:
    """Base class of environments. Constructor arguments come from `environment.kwargs` in the config.

    Methods that are coroutines here may be plain functions too; the others are plain. A subclass need not call
    `super().__init__()`. Arguments are given by position, in the order below, those of a tool by name.

    >>> import rlft
    >>> class Capitals(rlft.BaseEnv):
    ...     system_prompt = "Answer with the city alone."
    ...     def compute_reward(self, completion, ground_truth):
    ...         return {"right": float(completion.text.strip() == ground_truth)}
    """

    max_turns: int | None = None
    """How many turns the model has at most. `None` means eight where there are tools or a `respond`, else one."""
    system_prompt: str = ""
    """The system prompt of every task, unless `context` is overridden."""
    isolation: Isolation = "thread"
    """Where its tools and rewards run unless the config says where: `thread` (in the process of the run) or `process`
    (worker processes), for code that may end its process, such as a native library that crashes."""

    def context(self, task: Task) -> Context | Mapping[str, Any] | str:
        """Return the system prompt and the history policy for this task; text alone is the system prompt."""
        del task
        return Context(self.system_prompt)

    async def setup(self, task: Task) -> dict[str, Any] | None:
        """Return the state that a rollout of this task begins with, a JSON object; `None` is an empty one."""
        del task
        return None

    async def teardown(self, rollout_id: str) -> None:
        """Release what belongs to a rollout that has ended, whether it succeeded or failed."""

    def state(self, rollout_id: str) -> dict[str, Any]:
        """Return the state of a live rollout, which tools may change; it is stored with the rollout as JSON."""
        return live_states(self)[rollout_id]

    async def list_tools(self) -> Sequence[Any]:
        """Return the tools that a model may call, by default the methods marked with `@tool`.

        Each is a dict with `name`, `description` and `parameters`.
        """
        return list(marked_tools(self))

    async def run_tool(self, rollout_id: str, tool_name: str, /, **args: Any) -> Any:
        """Run one call and return what the model should see. An exception becomes a message to the model."""
        if tool_name not in marked(type(self), TOOL):
            raise LookupError(f"no tool named {tool_name!r}")
        given = {"state": self.state(rollout_id), "rollout_id": rollout_id}
        return await call(getattr(self, tool_name), **taken(getattr(self, tool_name), {**args, **given}))

    async def respond(self, rollout_id: str, completion: Trajectory) -> Message | str | None:
        """Return what the environment, or a simulated user, says to an answer without tool calls.

        `None` ends the rollout.
        """
        del rollout_id, completion
        return None

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        """Score an attempt; by default each `@reward` and `@metric` is a part.

        `completion` holds the messages after the prompt, tool results included (`completion.text` is the last answer,
        `completion.task` the task, `completion.state` what the rollout left); `ground_truth` is the task's answer.
        Returns {part: score}, or one score, the part `reward`; `None` means not applicable. 1 is full, unless
        `reward_maxima` says otherwise. An exception, NaN, infinity, a part above its maximum or below the
        minimum that `reward_minima` declares, and a penalty (negative weight) below 0 are recorded as an error of this
        rollout, never as 0.
        """
        names = marked_weights(self)
        if not names:
            raise NotImplementedError(f"{type(self).__name__} must define compute_reward(completion, ground_truth)")
        known = _known(completion, ground_truth)
        return {name: await _score(getattr(self, name), known) for name in names}

    async def compute_step_rewards(self, completion: Trajectory, ground_truth: Any) -> dict[str, list[float | None]]:
        """Score each turn of an attempt; by default each `@reward(per="turn")` is a part.

        Returns {part: a score for each of `completion.turns`}, `None` where a part does not apply to a turn; empty
        where turns are not scored. These scores are no part of the total: training adds their advantages to those of
        the attempt (`rlft.training.advantage`). Another number of scores than of turns, an exception, NaN and infinity
        are recorded as an error of this rollout.
        """
        known, turns = _known(completion, ground_truth), completion.turns
        return {
            name: [await _score(getattr(self, name), known | {"turn": turn}) for turn in turns]
            for name in marked_steps(self)
        }

    def step_weights(self) -> dict[str, float]:
        """Return {part: weight} for the parts that are scored per turn and whose weight is not 1.

        `reward.weights` in a config overrides it.
        """
        return marked_steps(self)

    def reward_weights(self) -> dict[str, float]:
        """Return {part: weight} for the parts whose weight is not 1; `reward.weights` in a config overrides it.

        A part of weight 0 is a metric. The weight under `*` is that of all parts that have none of their own.
        """
        return marked_weights(self)

    def reward_maxima(self) -> dict[str, float]:
        """Return {part: its score in a full attempt}, 0 or more, for the parts where it is not 1; `*` as for weights.

        The full total is the sum of weight times maximum over the parts with a positive weight. The maximum is 0 for a
        part that only takes away: one whose scores are 0 or less, with a positive weight.
        """
        return marked(self, MAXIMUM)

    def reward_minima(self) -> dict[str, float]:
        """Return {part: its lowest score} for the parts that declare one; `*` as for weights.

        A part with a minimum has a range, which ends at its maximum (also for a penalty or a metric): a score outside
        is an error of its rollout. If every part with a weight has one, the range of the total is known, and intervals
        of the reward allow for rare large losses that did not occur.
        """
        return marked(self, MINIMUM)

    def gold_completion(self, task: Task) -> str | Sequence[Message] | None:
        """Return an attempt that deserves the full reward, or `None` if none is known; by default the task's answer.

        The reward audit scores it, and demonstrations are made of it. Text is one answer. With tools it is the
        assistant's messages in order, with their `tool_calls`; the tools are run. Any form of message that
        `rlft.messages.as_messages` takes will do.
        """
        if task.answer is None:
            return None
        return task.answer if isinstance(task.answer, str) else json.dumps(task.answer, ensure_ascii=False)

    def attacks(self, task: Task) -> Mapping[str, str | Sequence[Message]]:
        """Return {name: an attempt that deserves no full reward}, for loopholes that only its author knows.

        The reward audit tries them beside its own kinds of attack, and fails if one is paid like gold. An attempt is
        text or messages, as for `gold_completion`. By default there are none.
        """
        del task
        return {}

    def demonstration(self, task: Task) -> str | Sequence[Message] | None:
        """Return the attempt that a warm start trains on for this task; by default the gold completion.

        Where the two differ, controls choose between them by validation.
        """
        return self.gold_completion(task)

    def final_answer(self, completion: Trajectory) -> str | None:
        """Return the answer of an attempt as it counts in majority votes; by default the stripped text.

        `None` means that there is no answer.
        """
        return completion.text.strip() or None

    def data_fingerprint(self) -> str:
        """Return an identity of the data that the environment reads (a corpus, an index), such as a hash.

        Override it where there is such data: stored rollouts and rewards are used again while it stays the same.
        """
        return ""

    def reward_fingerprint(self) -> str:
        """Return an identity of the reward's code that the class does not lead to, such as functions that a config
        names."""
        return ""


def _known(completion: Trajectory, ground_truth: Any) -> dict[str, Any]:
    """Return what a marked reward may take, by name (`rlft.reward`)."""
    return {
        "completion": completion,
        "text": completion.text,
        "thinking": completion.thinking,
        "ground_truth": ground_truth,
        "task": completion.task,
        "state": completion.state,
    }


async def _score(method: Any, known: dict[str, Any]) -> float | None:
    score = method(**taken(method, known))
    return await score if inspect.isawaitable(score) else score


def live_states(environment: BaseEnv) -> dict[str, dict[str, Any]]:
    """Return {rollout id: state} of the rollouts in progress."""
    # In `__dict__` under a name that no subclass uses, and made here, as a subclass need not call `super().__init__()`.
    return environment.__dict__.setdefault("_rlft_live_states", {})


def told_faults(environment: BaseEnv) -> set[tuple[str, ...]]:
    """Return the kinds of error (`rlft.outcome.Failure.kind`) of its tools that have been logged already."""
    return environment.__dict__.setdefault("_rlft_told_faults", set())


def context_of(task: Task, environment: BaseEnv) -> Context:
    """Return what `environment.context(task)` says, as a `Context`. Raises EnvironmentSetupError if it is none."""
    with hiding():
        said = environment.context(task)
    if isinstance(said, Context):
        return said
    try:
        return Context(said) if isinstance(said, str) else Context(**said)
    except (TypeError, ValidationError) as error:
        raise EnvironmentSetupError(
            f"{said!r:.200} is no context", where="context", fix="return rlft.Context(system_prompt=..., history=...)"
        ) from error


def prompt_messages(task: Task, environment: BaseEnv) -> tuple[Message, ...]:
    """Return the messages that a rollout of this task begins with: the system prompt, if any, then the task's prompt.

    The harness renders these, and scoring takes what follows them for the attempt. The prompt may hold assistant
    messages of its own (worked examples); they are never scored. Raises EnvironmentSetupError as `context_of` does.
    """
    system_prompt = context_of(task, environment).system_prompt
    if not system_prompt:
        return tuple(task.prompt)
    return (cast(Message, {"role": "system", "content": system_prompt}), *task.prompt)


async def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function and return its result, awaited if it is awaitable; a plain function runs in a thread of its own.

    Raises what the function raises, with the values of secret variables hidden (`rlft.texts.secrets`). What would end
    the event loop for everyone (SystemExit, a cancellation that nobody asked for) becomes a RuntimeError.
    """
    try:
        if inspect.iscoroutinefunction(function):
            result = await function(*args, **kwargs)
        else:
            result = await in_thread(partial(function, *args, **kwargs))
        return await result if inspect.isawaitable(result) else result  # either kind may return a client's coroutine
    except (Exception, GeneratorExit) as error:
        hide_in(error)
        raise
    except BaseException as raised:
        task = asyncio.current_task()
        if isinstance(raised, asyncio.CancelledError) and task is not None and task.cancelling():
            raise  # the caller's own cancellation, such as a time-out
        raise RuntimeError(f"{type(raised).__name__}: {raised}") from raised
