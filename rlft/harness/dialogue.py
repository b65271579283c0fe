"""One conversation with an environment: its messages, tools, state and limits. Tokens are not known here.

A `Playground` is what all conversations with an environment share. A call of a tool has a time limit, and whatever goes
wrong with it becomes a message to the model.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
import logging
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

import numpy as np
from pydantic_core import to_jsonable_python

from rlft.config.environment import HarnessConfig
from rlft.environments.contract.base import BaseEnv, call, live_states, prompt_messages, told_faults
from rlft.environments.contract.faults import calling, described, failure_of, place_of
from rlft.environments.contract.marks import ToolArgumentsError, ToolSpec, read_tools
from rlft.environments.workers.threads import Late
from rlft.messages import MessageError, as_messages, printable
from rlft.outcome import Failure
from rlft.texts.secrets import hide
from rlft.types import Message, Task, ToolCall, Trajectory

logger = logging.getLogger(__name__)
TURNS_WITH_TOOLS = 8  # most turns, if neither config nor environment says how many, of one with tools or `respond`
_MARGIN = 1 << 16  # characters; no value of a variable is longer


@dataclass(frozen=True, slots=True)
class Playground:
    """An environment, its tools by name, the most turns of a conversation with it, and the other limits."""

    environment: BaseEnv
    tools: Mapping[str, ToolSpec]
    max_turns: int
    harness: HarnessConfig


async def make_playground(environment: BaseEnv, harness: HarnessConfig) -> Playground:
    """Ask the environment for its tools. Raises EnvironmentSetupError if these cannot be described or called."""
    with calling(f"{type(environment).__name__}.list_tools"):
        listed = await call(environment.list_tools)
    tools = {spec.name: spec for spec in read_tools(listed)}
    talks = bool(tools) or type(environment).respond is not BaseEnv.respond
    turns = harness.max_turns or environment.max_turns or (TURNS_WITH_TOOLS if talks else 1)
    return Playground(environment, tools, turns, harness)


@dataclass(slots=True)
class Dialogue:
    """A conversation in progress: call `open`, then `answer` for each message of the model, then `close`.

    `error` is set once something failed that is not the model's doing; nothing is raised.
    """

    playground: Playground
    rollout_id: str
    task: Task
    messages: list[Message] = field(default_factory=list)
    prompt_messages: int = 0  # how many of the messages are the prompt
    state: dict[str, Any] = field(default_factory=dict)
    turns: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    tool_faults: list[Failure] = field(default_factory=list)  # errors that the code of tools raised, and where
    error: Failure | None = None
    closed: bool = False

    async def open(self) -> None:
        """Begin with the prompt of the task, and with the state that the environment's `setup` returns."""
        try:
            self.messages = copy.deepcopy(list(prompt_messages(self.task, self.playground.environment)))
            self.prompt_messages = len(self.messages)
            self.state = _own_state(await self._timed(call(self.playground.environment.setup, self.task)))
            live_states(self.playground.environment)[self.rollout_id] = self.state
        except Exception as error:
            self.error = failure_of("setup", error, self.task)

    async def answer(self, message: Message, problems: Sequence[str] = ()) -> list[Message] | None:
        """Take the model's next message and return the messages that it reads then; `None` if the conversation is over.

        `problems` are sentences about calls that could not be read. Each counts as a failed call, and the model reads
        it.
        """
        self.messages.append(message)
        self.turns += 1
        calls = message.get("tool_calls", [])
        try:
            told = await self._use_tools(calls, problems) if calls or problems else await self._respond()
        except Exception as error:
            self.error = failure_of("respond", error, self.task)
            return None
        self.messages.extend(told)
        return told if told and self.turns < self.playground.max_turns else None

    async def close(self) -> None:
        """Call the environment's `teardown` and turn the state into plain JSON; a second call does nothing."""
        if self.closed:
            return
        self.closed = True
        try:
            await self._timed(call(self.playground.environment.teardown, self.rollout_id))
        except Exception as error:
            logger.warning("teardown of %s failed: %s", self.rollout_id, described(error))
        live_states(self.playground.environment).pop(self.rollout_id, None)
        try:
            self.state = json.loads(hide(json.dumps(self.state, allow_nan=False)))
            json.dumps(self.state, ensure_ascii=False).encode()  # raises for lone surrogates, which cannot be stored
        except (TypeError, ValueError, RecursionError) as error:
            self.error = self.error or failure_of("state", error)
            self.state = {}

    async def _use_tools(self, calls: Sequence[ToolCall], problems: Sequence[str]) -> list[Message]:
        """Run the calls of one turn, one after the other, and return what the model reads about each."""
        told: list[Message] = []
        harness = self.playground.harness
        until = time.perf_counter() + harness.timeout_seconds
        for wanted in calls:
            self.tool_calls += 1
            result = self._refusal(is_late=bool(told) and time.perf_counter() > until)
            if result is None:
                result = await self._call_tool(wanted)
            self.tool_errors += result.failed
            if result.fault is not None:
                self._tell_author(result.fault)
            told.append(_result_message(wanted, result))
        self.tool_calls += len(problems)
        self.tool_errors += len(problems)
        return [*told, *({"role": "tool", "content": f"error: {problem}", "failed": True} for problem in problems)]

    def _refusal(self, *, is_late: bool) -> ToolResult | None:
        """Return the result of a call that may not be run; `None` if it may."""
        harness = self.playground.harness
        if self.tool_calls > harness.max_tool_calls:
            return ToolResult(f"error: no more than {harness.max_tool_calls} calls are allowed", failed=True)
        if is_late:
            late = f"the calls before it took longer than {harness.timeout_seconds:g} s"
            return ToolResult(f"error: not run: {late}", failed=True)
        return None

    def _tell_author(self, fault: Failure) -> None:
        """Log the fault of a tool, each kind once in the environment's life: a model may cause it again and again."""
        self.tool_faults.append(fault)
        told = told_faults(self.playground.environment)
        if fault.kind not in told:
            told.add(fault.kind)
            logger.info("%s (the model is told; said here once)", fault)

    async def _respond(self) -> list[Message]:
        """Return what the environment's `respond` answers to the conversation so far; nothing if it ends it."""
        trajectory = Trajectory(self.messages[self.prompt_messages :], task=self.task, state=self.state)
        said = await self._timed(call(self.playground.environment.respond, self.rollout_id, trajectory))
        return _reply(self.playground.harness.max_tool_characters, said)

    async def _call_tool(self, wanted: ToolCall) -> ToolResult:
        """Run one call, and cut its result to `harness.max_tool_characters`. An error of the tool is a result, too."""
        tools, longest = self.playground.tools, self.playground.harness.max_tool_characters
        name, given = wanted["function"]["name"], wanted["function"]["arguments"]
        spec = tools.get(name)
        if spec is None:
            close = get_close_matches(name, tools, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(tools) or 'none'}"
            return ToolResult(f"error: there is no tool named {name!r:.100}{hint}", failed=True)
        fault = None
        try:
            arguments = spec.read_arguments(given)
            result = await self._timed(call(self.playground.environment.run_tool, self.rollout_id, name, **arguments))
            text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=_plain)
            return ToolResult(shortened(text, longest))
        except ToolArgumentsError as error:
            text = f"error: wrong arguments: {error}"
        except Late as late:
            text = f"error: {name} took {late}"
        except Exception as error:
            text = f"error: {type(error).__name__}: {error}"
            fault = None if place_of(error) is None else failure_of(f"tool {name}", error)
        return ToolResult(shortened(text, longest), failed=True, fault=fault)

    async def _timed(self, waiting: Awaitable[Any]) -> Any:
        """Await it within `harness.tool_timeout_seconds`. Raises Late, and what the code raises."""
        seconds = self.playground.harness.tool_timeout_seconds
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await waiting
        except TimeoutError as error:
            if limit.expired():
                raise Late(f"longer than {seconds:g} s") from error
            raise


def _own_state(state: Any) -> dict[str, Any]:
    """Return a copy of what `setup` returned, so that no two rollouts share a state."""
    if state is None:
        return {}
    if not isinstance(state, Mapping):
        raise TypeError(f"returned {type(state).__name__}, not a dict")
    return copy.deepcopy(dict(state))


def _result_message(wanted: ToolCall, result: ToolResult) -> Message:
    message: Message = {
        "role": "tool",
        "content": result.text,
        "name": wanted["function"]["name"],
        "tool_call_id": wanted["id"],
    }
    if result.failed:
        message["failed"] = True
    return message


def _reply(longest: int, said: Any) -> list[Message]:
    """Return what `respond` returned, text or one message, as messages to render, their text cut to `longest`.

    There are none for `None`. Raises TypeError for anything else.
    """
    if said is None:
        return []
    if isinstance(said, str):
        return [{"role": "user", "content": shortened(said, longest)}]
    if isinstance(said, list | tuple):
        raise TypeError(f"returned a {type(said).__name__} of {len(said)}: return one message, or text")
    try:
        (message,) = as_messages([said])
    except MessageError as error:
        raise TypeError(f"returned {said!r:.100}, not text or a message: its {error}") from error
    return [{**message, "content": shortened(message["content"], longest)}]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The outcome of a call: the text that the model reads, whether the call failed, and what the tool's code raised.

    `fault` is for the author of the tool. It is `None` if no code of the author's raised, as in a call that is wrong or
    took too long.
    """

    text: str
    failed: bool = False
    fault: Failure | None = None


def _plain(value: Any) -> Any:
    """Convert a value that JSON does not know to one that it does, for `json.dumps`. Raises ValueError."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return str(value) if isinstance(value, Fraction) else to_jsonable_python(value)


def shortened(text: str, length: int) -> str:
    """Return a text as `printable` makes it, its end replaced by a note of how much is missing if it is longer.

    Of a text that is much longer only the beginning is copied, with some more, as a secret may lie across the cut.
    """
    beginning = printable(text[: length + _MARGIN])
    missing = len(beginning) - length + max(0, len(text) - length - _MARGIN)
    return beginning if missing <= 0 else f"{beginning[:length]} ... ({missing} more characters)"
