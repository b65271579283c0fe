"""An attempt at a task: which one it is, the solved tasks that a model reads before it, and the rollout in progress."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal, cast

import numpy as np
from pydantic import Field

from rlft.config.section import Section
from rlft.engines.base import Generation
from rlft.harness.dialogue import Dialogue
from rlft.outcome import Failure
from rlft.types import Message, Rollout, StopReason, Task, derive_seed

Form = Literal["turns", "text"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A task that is to be attempted, with the identity of the attempt and the seed of its first turn."""

    rollout_id: str
    task: Task
    sample: int
    round: int
    seed: int


@dataclass(slots=True, eq=False)
class Live:
    """A rollout in progress: a dialogue, and the token ids that it is made of.

    `sampled` holds, for each turn of the model, the index in `token_ids` at which it begins, and the generation, which
    is empty where nobody knows the tokens.
    """

    attempt: Attempt
    dialogue: Dialogue
    token_ids: list[int] = field(default_factory=list)
    sampled: list[tuple[int, Generation]] = field(default_factory=list)
    prompt_length: int = 0
    stop_reason: StopReason | None = None  # `None` as long as the rollout goes on
    error: Failure | None = None
    began: float = field(default_factory=time.perf_counter)
    ended: float = 0.0

    def end(self, reason: StopReason, error: Failure | None = None) -> None:
        """Note that the rollout is over, and why; `error` says where and why something failed."""
        self.stop_reason, self.error, self.ended = reason, error, time.perf_counter()

    def turn_seed(self) -> int:
        """Return the seed of the next turn. The first turn has the seed of the attempt itself."""
        turn = len(self.sampled)
        return self.attempt.seed if turn == 0 else derive_seed(self.attempt.seed, "turn", turn)

    def record(self, identity: str, sampling: str, environment_fingerprint: str) -> Rollout:
        """Return the finished rollout; `identity` is that of the policy, `sampling` the fingerprint of its settings.

        Its token ids, loss mask and log-probabilities have the shape (tokens,).
        """
        attempt, dialogue = self.attempt, self.dialogue
        mask, logprobs = np.zeros(len(self.token_ids), dtype=bool), np.zeros(len(self.token_ids), dtype=np.float32)
        for start, generation in self.sampled:
            turn = slice(start, start + len(generation.token_ids))
            mask[turn], logprobs[turn] = True, generation.logprobs
        messages = dialogue.messages
        if len(messages) == dialogue.prompt_messages:  # it failed before the first turn
            messages = [*messages, {"role": "assistant", "content": ""}]
        reason = self.stop_reason or "error"
        return Rollout(
            rollout_id=attempt.rollout_id,
            task_id=attempt.task.id,
            sample=attempt.sample,
            round=attempt.round,
            messages=tuple(messages),
            token_ids=np.asarray(self.token_ids, dtype=np.int32),
            loss_mask=mask,
            logprobs=logprobs,
            prompt_length=self.prompt_length,
            turns=len(self.sampled),
            tool_calls=dialogue.tool_calls,
            tool_errors=dialogue.tool_errors,
            state=dialogue.state,
            stop_reason=reason,
            truncated=reason == "length",
            error=self.error,
            seconds=self.ended - self.began,
            policy=identity,
            sampling=sampling,
            environment=environment_fingerprint,
            seed=attempt.seed,
        )


class Example(Section):
    """Holds a solved task: the messages of its prompt, and those of the answer, with tool calls and their results."""

    prompt: list[Message]
    turns: list[Message]

    def as_text(self) -> str | None:
        """Return question and answer on lines of their own; `None` if it is more than one message each, or has calls.

        Messages of the system are left out, as each task has its own.
        """
        asked = _without_system(self.prompt)
        if [m["role"] for m in asked] != ["user"] or [m["role"] for m in self.turns] != ["assistant"]:
            return None
        return None if self.turns[0].get("tool_calls") else f"{asked[0]['content']}\n{self.turns[0]['content']}"


class Examples(Section):
    """Holds solved tasks and the form in which they are shown, and instructions that end the system's messages.

    As `turns` the tasks are earlier turns of the conversation, after the task's messages of the system. As `text` they
    stand in its first message of the user, before what that says.
    """

    form: Form = "turns"
    shown: list[Example] = Field(default=[])
    instructions: str = Field(default="", exclude_if=lambda instructions: not instructions)

    def before(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages of a task's prompt with all of this before them; what is given is not changed.

        Raises ValueError if they are to be shown as text, and an example or the prompt cannot hold that.
        """
        system = list(takewhile(lambda message: message["role"] == "system", messages))
        if self.instructions:
            said = "\n\n".join([*(message["content"] for message in system[-1:]), self.instructions])
            messages = [*system[:-1], {"role": "system", "content": said}, *messages[len(system) :]]
            system = list(messages[: max(1, len(system))])
        if self.form == "turns":
            earlier = [each for one in self.shown for each in (*_without_system(one.prompt), *one.turns)]
            return [*system, *earlier, *messages[len(system) :]]
        texts = [one.as_text() for one in self.shown]
        place = next((place for place, message in enumerate(messages) if message["role"] == "user"), None)
        if place is None or None in texts:
            raise ValueError("examples of several messages, or with calls of tools, can only be shown as turns")
        blocks = ["Examples:", *(text for text in texts if text is not None), "Answer in the same way:"]
        said = "\n\n".join([*blocks, messages[place]["content"]])
        return [*messages[:place], cast(Message, {**messages[place], "content": said}), *messages[place + 1 :]]


def _without_system(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if message["role"] != "system"]
