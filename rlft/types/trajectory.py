"""The conversation of an attempt, as rewards and environments read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rlft.thinking import answer_of, part
from rlft.types.message import Message
from rlft.types.task import Task


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of an attempt: what the model wrote, and what it was answered before its next turn.

    >>> from rlft.types import Turn
    >>> result = {"role": "tool", "content": "Its capital is Lima.", "name": "look_up", "tool_call_id": "c1"}
    >>> Turn(0, {"role": "assistant", "content": ""}, (result,)).results[0]["name"]
    'look_up'
    """

    number: int
    """Its place in the attempt, from 0."""
    message: Message
    """The assistant's message, with its tool calls."""
    results: tuple[Message, ...]
    """The results of its tool calls, or what the environment said; empty in the last turn."""


class Trajectory(list[Message]):
    """The list of messages after the prompt, tool results included, which `compute_reward` is given.

    It is a list, not a text: `completion.text` is the answer. What the model thought before is parted from it: the
    content of a message is its answer, and `message["thinking"]` the thoughts, where there are any. It also knows its
    task and how the rollout ended.

    >>> from rlft import Task, Trajectory
    >>> prompt = ({"role": "user", "content": "The capital of Peru?"},)
    >>> task = Task(id="1", environment="", prompt=prompt, answer="Lima", info={}, split="train", group="1")
    >>> call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": {"country": "Peru"}}}
    >>> completion = Trajectory(
    ...     [
    ...         {"role": "assistant", "content": "", "tool_calls": [call]},
    ...         {"role": "tool", "content": "Its capital is Lima.", "name": "look_up", "tool_call_id": "c1"},
    ...         {"role": "assistant", "content": "Lima"},
    ...     ],
    ...     task=task,
    ...     state={"read": ["Peru"]},
    ... )
    >>> completion.text == completion.task.answer
    True
    >>> [message["content"] for message in completion if message["role"] == "tool"]
    ['Its capital is Lima.']
    >>> completion.state["read"], completion.truncated
    (['Peru'], False)
    """

    task: Task
    """The task that was attempted."""
    state: dict[str, Any]
    """The state of the environment as `setup` and the tools left it, JSON; empty where there is none."""
    truncated: bool
    """Whether a limit of tokens, context or seconds cut the rollout off."""
    peers: Sequence[Sequence[Message]]
    """What follows the prompt in each attempt of the group, this one among them, where a reward compares them."""
    sampled: Sequence[Message]
    """The messages with thoughts and answer in one content, as the model wrote them."""

    def __init__(
        self,
        messages: Sequence[Message],
        *,
        task: Task,
        state: dict[str, Any] | None = None,
        truncated: bool = False,
        peers: Sequence[Sequence[Message]] = (),
    ) -> None:
        super().__init__(map(_parted, messages))
        self.sampled = messages
        self.task = task
        self.state = state or {}
        self.truncated = truncated
        self.peers = [[*map(_parted, each)] for each in peers]

    @property
    def text(self) -> str:
        """The answer in the last assistant message, or an empty string."""
        return answer_of(self)

    @property
    def whole(self) -> str:
        """That message as the model wrote it, thoughts and answer, or an empty string."""
        return next((m["content"] for m in reversed(self.sampled) if m["role"] == "assistant"), "")

    @property
    def thinking(self) -> str:
        """What the model thought before that answer, with the marks around it, or an empty string."""
        return next((m.get("thinking", "") for m in reversed(self) if m["role"] == "assistant"), "")

    @property
    def turns(self) -> list[Turn]:
        """The turns of the model, each with what it was answered."""
        starts = [place for place, message in enumerate(self) if message["role"] == "assistant"]
        return [
            Turn(number, self[start], tuple(self[start + 1 : end]))
            for number, (start, end) in enumerate(pairwise([*starts, len(self)]))
        ]

    def __str__(self) -> str:
        return self.text


def _parted(message: Message) -> Message:
    thinking, answer = part(message["content"]) if message["role"] == "assistant" else ("", "")
    return {**message, "content": answer, "thinking": thinking} if thinking else message
