"""What samples from a policy. Token ids in, token ids out: an engine never sees text."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from rlft.policy import Policy


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample: `temperature` (0 is greedy) and the largest number of new tokens."""

    temperature: float
    max_completion_length: int

    @property
    def fingerprint(self) -> str:
        """Readable identity, stored with every rollout."""
        return f"temperature={self.temperature:g} max_completion_length={self.max_completion_length}"


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """One sampled completion.

    `token_ids` (int32) end with the stop token if one was sampled. `logprobs` (float32) are natural logs of the
    probabilities under the distribution that was sampled from; for greedy decoding, under temperature 1.
    """

    token_ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    stop_reason: Literal["stop", "length"]


class Engine(Protocol):
    """Samples completions; one seed per completion, so that each can be drawn again alone."""

    @property
    def policy_hash(self) -> str:
        """Weights hash of the loaded policy, or an empty string."""
        ...

    def load_policy(self, policy: Policy) -> None:
        """Sample from this policy from now on."""
        ...

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]) -> list[Generation]:
        """One completion per prompt, in the same order. Equal prompts are encoded once."""
        ...

    def close(self) -> None:
        """Give back memory and processes."""
        ...


def derive_seed(*parts: object) -> int:
    """A 63-bit seed from what it stands for, such as (config seed, round, task id, sample)."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
