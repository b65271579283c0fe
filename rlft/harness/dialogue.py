"""One conversation with an environment: its messages, tools, state and limits. Tokens are not known here.

A `Playground` is what all conversations with an environment share.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rlft.config import HarnessConfig
from rlft.environments.contract.base import BaseEnv, call, keeping, live_states, prompt_messages, told_faults
from rlft.environments.contract.faults import calling, described, failure_of
from rlft.environments.contract.tools import ToolSpec, read_tools
from rlft.harness.tools import ToolResult, call_tool, shortened
from rlft.messages import MessageError, as_messages
from rlft.outcome import Failure
from rlft.texts.secrets import hide
from rlft.types import Message, Task, ToolCall, Trajectory

TURNS_WITH_TOOLS = 8  # most turns, if neither config nor environment says how many, of one with tools or `respond`


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


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A task that is to be attempted, with the identity of the attempt and the seed of its first turn."""

    rollout_id: str
    task: Task
    sample: int
    round: int
    seed: int


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
                result = await call_tool(
                    self.playground.environment,
                    self.playground.tools,
                    self.rollout_id,
                    wanted,
                    timeout_seconds=harness.tool_timeout_seconds,
                    max_characters=harness.max_tool_characters,
                )
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
        longest = self.playground.harness.max_tool_characters
        with keeping(partial(_reply, longest)):
            return await self._timed(call(self.playground.environment.respond, self.rollout_id, trajectory))

    async def _timed(self, waiting: Awaitable[Any]) -> Any:
        """Await it within `harness.tool_timeout_seconds`. A TimeoutError of its own is told apart from ours."""
        seconds = self.playground.harness.tool_timeout_seconds
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await waiting
        except TimeoutError as error:
            if limit.expired():
                raise TimeoutError(f"longer than {seconds:g} s") from error
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
