"""A rollout in progress: its conversation, and the token ids that the conversation is made of."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from rlft.engines.base import Generation, Sampling
from rlft.harness.dialogue import Attempt, Dialogue
from rlft.harness.opening import RemoteDialogue
from rlft.outcome import Failure
from rlft.types import Rollout, StopReason, derive_seed


@dataclass(slots=True, eq=False)
class Live:
    """A rollout in progress: a dialogue, and the token ids that it is made of.

    `sampled` holds, for each turn of the model, the index in `token_ids` at which it begins, and the generation, which
    is empty where nobody knows the tokens.
    """

    attempt: Attempt
    dialogue: Dialogue | RemoteDialogue
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

    def record(self, identity: str, sampling: Sampling, environment_fingerprint: str) -> Rollout:
        """Return the finished rollout; `identity` is that of the policy.

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
            state=dialogue.state or {},
            stop_reason=reason,
            truncated=reason == "length",
            error=self.error,
            seconds=self.ended - self.began,
            policy=identity,
            sampling=sampling.fingerprint,
            environment=environment_fingerprint,
            seed=attempt.seed,
        )
