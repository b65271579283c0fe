"""A rollout while it is made: a conversation, and the tokens it is made of."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from rlft.engines.base import Generation, Sampling, derive_seed
from rlft.harness.dialogue import Attempt, Dialogue
from rlft.outcome import Failure
from rlft.policy import Policy
from rlft.types import Rollout, StopReason


@dataclass(slots=True, eq=False)
class Live:
    """A rollout in progress: a dialogue, and the tokens it is made of."""

    attempt: Attempt
    dialogue: Dialogue
    token_ids: list[int] = field(default_factory=list)
    sampled: list[tuple[int, Generation]] = field(default_factory=list)  # where in token_ids each turn begins
    prompt_length: int = 0
    stop_reason: StopReason | None = None  # none while it is alive
    error: Failure | None = None
    began: float = field(default_factory=time.perf_counter)
    ended: float = 0.0

    def end(self, reason: StopReason, error: Failure | None = None) -> None:
        """It is over; `error` says where and why something failed."""
        self.stop_reason, self.error, self.ended = reason, error, time.perf_counter()

    def turn_seed(self) -> int:
        """Of the next turn; the first draws from the attempt's own seed, as a single turn does."""
        turn = len(self.sampled)
        return self.attempt.seed if turn == 0 else derive_seed(self.attempt.seed, "turn", turn)

    def record(self, policy: Policy, sampling: Sampling, environment_fingerprint: str) -> Rollout:
        """The rollout as arrays."""
        attempt, dialogue = self.attempt, self.dialogue
        mask, logprobs = np.zeros(len(self.token_ids), dtype=bool), np.zeros(len(self.token_ids), dtype=np.float32)
        for start, generation in self.sampled:
            turn = slice(start, start + len(generation.token_ids))
            mask[turn], logprobs[turn] = True, generation.logprobs
        messages = dialogue.messages
        if len(messages) == dialogue.prompt_messages:
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
            policy=policy.identity,
            sampling=sampling.fingerprint,
            environment=environment_fingerprint,
            seed=attempt.seed,
        )
