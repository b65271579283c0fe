"""Opens a playground where the environment's code runs: on a thread of this process, or in worker processes.

A `RemoteDialogue` is a conversation in a worker process; `open_dialogues` is what answers there.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rlft.config.environment import HarnessConfig
from rlft.environments.contract.base import BaseEnv, live_states
from rlft.environments.contract.loading import environment_of, isolation_of, pool_of, read_task, task_json
from rlft.environments.contract.marks import ToolSpec
from rlft.environments.workers.child import Methods
from rlft.environments.workers.pool import MAX_ENDED_IN_A_ROW, START_SECONDS, Pool, WorkerEnded
from rlft.environments.workers.threads import LoopThread
from rlft.errors import RlftError
from rlft.harness.dialogue import Dialogue, Playground, make_playground
from rlft.outcome import Failure
from rlft.types import Message, Task

logger = logging.getLogger(__name__)
_COUNTS = ("prompt_messages", "turns", "tool_calls", "tool_errors")
_WAY_OUT = "mend what ends its process; a larger harness.memory_mib helps where memory runs out"


class _StateLostError(Exception):
    """Raised where a rollout would go on in another process that does not have all of its state."""


@dataclass(slots=True, kw_only=True)
class RemoteDialogue(Dialogue):
    """A `Dialogue` that goes on in a worker process; this object has what is known of it after each call.

    If another rollout ends the process, this one goes on in another process with the state that it had. It cannot if
    the environment has a `teardown`, and so keeps more than the state of a rollout: then it ends with an error.
    """

    pool: Pool
    has_json: bool = True  # whether its state is JSON, and so known here
    lost: bool = False  # whether its process has ended, and its state with it

    async def open(self) -> None:
        """Begin with the prompt of the task, and with the state that the environment's `setup` returns."""
        await self._ask("open", [], "setup")

    async def answer(self, message: Message, problems: Sequence[str] = ()) -> list[Message] | None:
        """Take the model's next message and return the messages that it reads then; `None` if the conversation is over.

        `problems` are sentences about calls that could not be read.
        """
        calls = message.get("tool_calls", [])
        where = f"tool {calls[0]['function']['name']}"[:80] if len(calls) == 1 else "tools" if calls else "respond"
        told = await self._ask("answer", [message, list(problems)], where)
        if self.lost:
            self.messages.append(message)
            self.turns += 1
        return told

    async def close(self) -> None:
        """Call the environment's `teardown` and take the state as plain JSON; a second call does nothing."""
        if not self.closed and not self.lost and self.messages:
            await self._ask("close", [], "teardown")
        self.closed = True
        self.pool.forget(self.rollout_id)

    async def _ask(self, method: str, argument: list[Any], where: str) -> Any:
        try:
            said = await self.pool.call(
                "dialogue",
                self._argument(method, argument),
                key=self.rollout_id,
                quiet_seconds=self.playground.harness.tool_timeout_seconds,
            )
        except WorkerEnded as ended:
            why = f"the worker process {ended}" + (f" in {where}" if where.startswith("tool") else "")
            self._lose(Failure("harness" if where.startswith("tool") else where, why, _WAY_OUT, raised="WorkerEnded"))
            return None
        except _StateLostError:
            why = "another rollout has ended the worker process, and with it what the environment kept of this one"
            place = "teardown" if method == "close" else "harness"
            self._lose(Failure(place, why, _WAY_OUT, raised="WorkerEnded"))
            return None
        self.messages.extend(said["messages"])
        self.has_json, self.state = said["state"] is not None, said["state"] or {}
        for name in _COUNTS:
            setattr(self, name, said[name])
        self.tool_faults.extend(Failure(**each) for each in said["faults"])
        self.error = said["error"] and Failure(**said["error"])
        return said["told"]

    def _lose(self, failure: Failure) -> None:
        self.lost = True
        if failure.where == "teardown":  # the conversation was over, and its state is known
            logger.warning("teardown of %s failed: %s", self.rollout_id, failure.why)
        else:
            self.error = self.error or failure

    def _argument(self, method: str, argument: list[Any]) -> Callable[[bool], dict[str, Any]]:
        def make(anew: bool) -> dict[str, Any]:
            content = {"rollout": self.rollout_id, "method": method, "argument": argument}
            if not anew:
                return content
            if method == "open":
                return {**content, "task": task_json(self.task)}
            if not self.has_json or type(self.playground.environment).teardown is not BaseEnv.teardown:
                raise _StateLostError
            before = {name: getattr(self, name) for name in ("messages", "state", *_COUNTS)}
            return {**content, "task": task_json(self.task), "before": before}

        return make


def dialogue_pool(environment: BaseEnv, harness: HarnessConfig) -> Pool:
    """Return the worker processes in which conversations with an environment go on."""
    options = harness.model_dump(exclude={"processes", "memory_mib"}) | {"isolation": "thread"}
    return pool_of(environment, f"{__name__}:open_dialogues", options, harness, setting="harness", processes=0)


async def open_dialogues(payload: dict[str, Any]) -> Methods:
    """Make the environment in a worker process, and return what the process can be asked for."""
    environment = environment_of(payload)
    playground = await make_playground(environment, HarnessConfig(**payload["options"]))
    dialogues: dict[str, Dialogue] = {}

    async def describe(argument: Any) -> dict[str, Any]:
        del argument
        tools = [[spec.name, spec.description, spec.parameters] for spec in playground.tools.values()]
        return {"tools": tools, "max_turns": playground.max_turns}

    async def dialogue(argument: dict[str, Any]) -> dict[str, Any]:
        rollout = argument["rollout"]
        if "task" in argument:
            before = argument.get("before", {})
            dialogues[rollout] = Dialogue(playground, rollout, read_task(argument["task"]), **before)
            if before:
                live_states(environment)[rollout] = dialogues[rollout].state
        one = dialogues[rollout]
        messages, faults = len(one.messages), len(one.tool_faults)
        told = await getattr(one, argument["method"])(*argument["argument"])
        if one.closed:
            del dialogues[rollout]
        return {
            "told": told,
            "messages": one.messages[messages:],
            "faults": [asdict(fault) for fault in one.tool_faults[faults:]],
            "error": one.error and asdict(one.error),
            "state": _as_json(one.state),
            **{name: getattr(one, name) for name in _COUNTS},
        }

    return {"describe": describe, "dialogue": dialogue}


def _as_json(state: dict[str, Any]) -> dict[str, Any] | None:
    """Return the state if it is JSON; `None` if not, which tools may mend before the rollout ends."""
    try:
        return json.loads(json.dumps(state))
    except (TypeError, ValueError, RecursionError):
        return None


class Ground:
    """Where conversations with an environment go on: the thread, and the worker processes if there are any.

    To be used as a context.
    """

    def __init__(self, environment: BaseEnv, harness: HarnessConfig) -> None:
        self._environment, self._harness = environment, harness
        is_apart = isolation_of(environment, harness) == "process"
        self._pool: Pool | None = dialogue_pool(environment, harness) if is_apart else None
        self.thread = LoopThread(self._pool or environment)

    def __enter__(self) -> Ground:
        return self

    def __exit__(self, *_: object) -> None:
        self.thread.__exit__()

    def open(self) -> Playground:
        """Return the playground. Raises RlftError if there is no answer in time, and as `make_playground` does."""
        seconds, where = self._harness.tool_timeout_seconds, f"{type(self._environment).__name__}.list_tools"
        longest = seconds if self._pool is None else seconds + START_SECONDS
        return self.thread.wait(self.thread.start(self.make()), seconds, where, longest)

    async def make(self) -> Playground:
        """Return the playground, as a coroutine of `thread`."""
        if self._pool is None:
            return await make_playground(self._environment, self._harness)
        said = await self._pool.call("describe", lambda anew: None)
        tools = {name: ToolSpec(name, description, schema) for name, description, schema in said["tools"]}
        return Playground(self._environment, tools, said["max_turns"], self._harness)

    def dialogue(self, playground: Playground, rollout_id: str, task: Task) -> Dialogue:
        """Return a new conversation."""
        if self._pool is None:
            return Dialogue(playground, rollout_id, task)
        return RemoteDialogue(playground, rollout_id, task, pool=self._pool)

    def check(self) -> None:
        """Raise RlftError if one worker process after the other has ended."""
        if self._pool is not None and self._pool.ended_in_a_row >= MAX_ENDED_IN_A_ROW:
            raise RlftError(
                f"its code has ended {self._pool.ended_in_a_row} worker processes in a row, the last one as it "
                f"{self._pool.last_end}",
                where=type(self._environment).__name__,
                fix="mend what ends the process in setup, its tools or respond; if memory runs out, raise "
                "harness.memory_mib",
            )


def open_playground(environment: BaseEnv, harness: HarnessConfig) -> Playground:
    """Run `make_playground` from code that is no coroutine. Also raises RlftError if there is no answer in time."""
    with Ground(environment, harness) as ground:
        return ground.open()
