"""Opens a playground where the environment's code runs: on a thread of this process, or in worker processes."""

from __future__ import annotations

from rlft.config import HarnessConfig
from rlft.contract.base import BaseEnv
from rlft.contract.isolated import isolation_of
from rlft.contract.tools import ToolSpec
from rlft.errors import RlftError
from rlft.harness.dialogue import Dialogue
from rlft.harness.playground import Playground, make_playground
from rlft.harness.remote import RemoteDialogue, dialogue_pool
from rlft.types import Task
from rlft.workers.threads import LoopThread
from rlft.workers.pool import MAX_ENDED_IN_A_ROW, START_SECONDS, Pool


class Ground:
    """Where conversations with an environment go on: the thread, and the worker processes if there are any.

    To be used as a context.
    """

    def __init__(self, environment: BaseEnv, harness: HarnessConfig) -> None:
        self._environment, self._harness = environment, harness
        is_apart = isolation_of(environment, harness.workers()) == "process"
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

    def dialogue(self, playground: Playground, rollout_id: str, task: Task) -> Dialogue | RemoteDialogue:
        """Return a new conversation."""
        if self._pool is None:
            return Dialogue(playground, rollout_id, task)
        return RemoteDialogue(playground, self._pool, rollout_id, task)

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
