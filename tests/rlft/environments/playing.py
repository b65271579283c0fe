"""What a harness does with given messages of an assistant: run their tools, keep the conversation, score it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from rlft.environments.contract.base import BaseEnv, live_states
from rlft.environments.contract.marks import ToolArgumentsError, read_tools
from rlft.messages import make_call
from rlft.rewards.rubric import check_parts, combine, full_total
from rlft.types import Message, Task, Trajectory


def calls(*named: tuple[str, dict[str, Any]], content: str = "") -> Message:
    """An assistant's message that calls tools, given as (name, arguments)."""
    made = [make_call(name, arguments, f"call_{i}") for i, (name, arguments) in enumerate(named)]
    return {"role": "assistant", "content": content, "tool_calls": made}  # type: ignore[typeddict-item]


def says(text: str) -> Message:
    """An assistant's message without calls."""
    return {"role": "assistant", "content": text}


async def play(environment: BaseEnv, task: Task, said: str | Sequence[Message]) -> Trajectory:
    """The trajectory of an assistant that says this; what a tool refuses is an error message."""
    state = await environment.setup(task) or {}
    live_states(environment)["r"] = state
    tools = {spec.name: spec for spec in read_tools(await environment.list_tools())}
    messages: list[Message] = []
    for message in [says(said)] if isinstance(said, str) else said:
        messages.append(message)
        for call in message.get("tool_calls", ()):
            try:
                arguments = tools[call["function"]["name"]].read_arguments(call["function"]["arguments"])
                result = str(await environment.run_tool("r", call["function"]["name"], **arguments))
            except (ToolArgumentsError, KeyError) as error:
                result = f"error: {error}"
            messages.append(
                {"role": "tool", "content": result, "name": call["function"]["name"], "tool_call_id": call["id"]}
            )
    return Trajectory(messages, task=task, state=state)


def parts_of(environment: BaseEnv, task: Task, said: str | Sequence[Message]) -> dict[str, float | None]:
    """The checked parts that the assistant earns."""

    async def score() -> dict[str, float | None]:
        return await environment.compute_reward(await play(environment, task, said), task.answer)

    return check_parts(asyncio.run(score()))


def share_of(environment: BaseEnv, parts: dict[str, float | None]) -> float:
    """The total as a share of the full total of the same parts."""
    weights = environment.reward_weights()
    return combine(parts, weights) / full_total(parts, weights)
