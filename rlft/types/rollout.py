"""Recorded attempts at tasks, token by token as they were sampled, and as the messages that rewards read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlft.outcome import Failure
from rlft.types.task import Message, Task
from rlft.types.thinking import answer_of, part

StopReason = Literal["stop", "length", "error"]


@dataclass(frozen=True, slots=True, eq=False)
class Rollout:
    """A recorded attempt at a task, exactly as it was sampled. The arrays have one entry per token, prompt included.

    `rlft environments check`, scripted conversations and models behind an address make rollouts too; these have
    messages and no tokens.

    >>> import rlft
    >>> from rlft.harness.scripted import Part, as_script, play_scripts
    >>> class Echo(rlft.BaseEnv):
    ...     system_prompt = "Say it again."
    >>> prompt = ({"role": "user", "content": "Lima"},)
    >>> task = rlft.Task(id="1", environment="", prompt=prompt, answer="Lima", info={}, split="train", group="1")
    >>> (rollout,) = play_scripts([Part("try-1", task, as_script("Lima"))], Echo())
    >>> [message["role"] for message in rollout.messages]
    ['system', 'user', 'assistant']
    >>> rollout.turns, rollout.error
    (1, None)
    """

    rollout_id: str
    """Its name, which no other rollout of the run has."""
    task_id: str
    """The `id` of its task."""
    sample: int
    """The number of the attempt at this task in this round, from 0."""
    round: int
    """The round of training, from 0."""
    messages: tuple[Message, ...]
    """The conversation, prompt first. It is derived from the tokens and never turned back into tokens."""
    token_ids: NDArray[np.int32]
    """The tokens of the whole conversation, shape (tokens,)."""
    loss_mask: NDArray[np.bool_]
    """True where the model sampled the token, shape (tokens,)."""
    logprobs: NDArray[np.float32]
    """The natural logarithm of a sampled token's probability under the sampling distribution, 0 elsewhere; shape
    (tokens,)."""
    prompt_length: int
    """The number of tokens in the prompt."""
    turns: int
    """The number of turns of the model."""
    tool_calls: int
    """The number of tool calls, with those that failed or could not be read."""
    tool_errors: int
    """The number of tool calls that failed, for which the model read an error."""
    state: dict[str, Any]
    """The state of the environment as `setup` and the tools left it, JSON."""
    stop_reason: StopReason
    """`stop`: it ended, by itself or after its last turn; `length`: a limit cut it off; `error`: see `error`."""
    truncated: bool
    """Whether a limit of tokens, context or seconds cut it off."""
    error: Failure | None
    """What failed that is not the model's doing, and where."""
    seconds: float
    """Wall seconds from the beginning of the conversation to its end; 0 where it was scripted."""
    policy: str
    """The identity of the policy that was sampled; empty where it was scripted."""
    sampling: str
    """The settings of the sampling in one line; empty where it was scripted."""
    environment: str
    """The fingerprint of the environment's code and data."""
    seed: int
    """The seed of its first turn."""

    @property
    def completion_length(self) -> int:
        """The number of tokens after the prompt, sampled or not."""
        return len(self.token_ids) - self.prompt_length


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Rollouts in the order (task, sample), all from one policy.

    `seconds` is the wall time that sampling them took; `metrics` is what the engine measured meanwhile.
    """

    rows: tuple[Rollout, ...]
    seconds: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Rollout]:
        return iter(self.rows)


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
