"""Conversations whose assistant's turns are given: gold answers, attacks on a reward, examples. They have no tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rlft.config.environment import HarnessConfig
from rlft.engines.base import Generation
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.several import in_turn
from rlft.harness.attempt import Attempt, Live
from rlft.harness.dialogue import Dialogue
from rlft.harness.opening import Ground
from rlft.messages import MessageError, as_messages
from rlft.outcome import Failure
from rlft.progress import Meter, Progress, silent
from rlft.types import Message, Rollout, Task

Script = tuple[Message, ...]
_AT_ONCE = 64  # conversations side by side


@dataclass(frozen=True, slots=True)
class Part:
    """A task and the messages with which the assistant attempts it."""

    rollout_id: str
    task: Task
    script: Script


def as_script(said: Any) -> Script:
    """Return a script: text is a single answer, else the assistant's messages in order, in a form of `as_messages`.

    Raises MessageError for anything else, and for messages of another role.
    """
    if isinstance(said, str):
        return ({"role": "assistant", "content": said},)
    script = as_messages(said)
    for number, message in enumerate(script, start=1):
        if message["role"] != "assistant":
            raise MessageError(
                f"message {number} has the role {message['role']}; give what the assistant says alone: tools are run"
            )
    if not script:
        raise MessageError("no message; return text, the assistant's messages in order, or None")
    return script


def play_scripts(
    parts: Iterable[Part],
    environment: BaseEnv,
    harness: HarnessConfig | None = None,
    *,
    tool_faults: dict[str, list[Failure]] | None = None,
    progress: Progress = silent,
) -> list[Rollout]:
    """Play the scripts against the environment, with its real tools and state, and return the rollouts in order.

    The rollouts have no tokens. When the environment ends a conversation, the rest of its script is left out.
    `tool_faults` is filled with what tools raised, and where, by rollout id. Raises RlftError for tools that cannot be
    described and for code that hangs; whatever fails later is an error of its rollout. Several environments have their
    turn one after the other.
    """
    limits, faults = harness or HarnessConfig(), {} if tool_faults is None else tool_faults

    def play(some: Sequence[Part], member: BaseEnv) -> list[Rollout]:
        longest = limits.timeout_seconds * (1 + len(some) // _AT_ONCE)
        with Ground(member, limits) as ground:
            future = ground.thread.start(_play_all(some, ground, faults, progress))
            return ground.thread.wait(future, limits.tool_timeout_seconds, type(member).__name__, longest)

    return in_turn(list(parts), lambda part: part.task, environment, play)


async def _play_all(
    parts: Sequence[Part], ground: Ground, tool_faults: dict[str, list[Failure]], progress: Progress
) -> list[Rollout]:
    playground = await ground.make()
    some, meter = asyncio.Semaphore(_AT_ONCE), Meter(progress, len(parts), "conversations")

    async def one(part: Part) -> Rollout:
        async with some:
            played = await _play(part, ground.dialogue(playground, part.rollout_id, part.task), tool_faults)
            ground.check()
            meter.add()
            return played

    return list(await asyncio.gather(*map(one, parts)))


async def _play(part: Part, dialogue: Dialogue, tool_faults: dict[str, list[Failure]]) -> Rollout:
    row = Live(Attempt(part.rollout_id, part.task, 0, 0, 0), dialogue)
    await dialogue.open()
    for message in part.script if dialogue.error is None else ():
        row.sampled.append((0, Generation.unknown()))
        if await dialogue.answer(message) is None:
            break
    await dialogue.close()
    if dialogue.tool_faults:
        tool_faults[part.rollout_id] = dialogue.tool_faults
    row.end("stop" if dialogue.error is None else "error", dialogue.error)
    row.ended = row.began  # what is given is the same each time
    return row.record("", "", part.task.environment)
