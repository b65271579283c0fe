"""Recorded attempts at tasks, token by token as they were sampled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlft.outcome import Failure
from rlft.types.message import Message

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
