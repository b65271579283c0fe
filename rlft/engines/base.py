"""The contract of engines, which sample from a policy: token ids in, token ids out, so an engine never sees text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from rlft.outcome import Failure
from rlft.progress import Progress, silent

if TYPE_CHECKING:  # what policies are made of imports configs, which look for engines
    from rlft.models.live import Policy

LOGP_LIMIT = "engine/logp_difference_limit"
"""A metric of a round: how far engine and trainer may be apart in the mean by rounding alone, in nats per token."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Says how to sample: the temperature (0 is greedy), the most new tokens, and how the distribution is truncated.

    Only these tokens are sampled from: the `top_k` likeliest (0: all), the likeliest that together have the probability
    `top_p` (1: all), and those at least `min_p` times as likely as the likeliest (0: all). Only evaluation may
    truncate: a policy is not trained on the log-probabilities of a part of its distribution.
    """

    temperature: float
    max_completion_length: int
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0

    @property
    def fingerprint(self) -> str:
        """A readable identity of these settings, stored with every rollout."""
        cut = {"top_p": (self.top_p, 1), "top_k": (self.top_k, 0), "min_p": (self.min_p, 0)}
        words = [f"{name}={value:g}" for name, (value, off) in cut.items() if value != off]
        words = [f"temperature={self.temperature:g}", f"max_completion_length={self.max_completion_length}", *words]
        return " ".join(words)


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """Holds one sampled completion.

    `token_ids` (int32) end with the stop token if one was sampled. `logprobs` (float32) are natural logs of the
    probabilities under the distribution that was sampled from; for greedy decoding, under temperature 1. `error` says
    where and why nothing was sampled.
    """

    token_ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    stop_reason: Literal["stop", "length", "error"]
    error: Failure | None = None

    @classmethod
    def failed(cls, where: str, why: str) -> Generation:
        """Return a generation without tokens, and why; `where` is `engine`, or `prompt` if that cannot be continued."""
        return cls(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32), "error", Failure(where, why))

    @classmethod
    def unknown(cls) -> Generation:
        """Return the generation of a turn whose tokens nobody knows: it has none."""
        return cls(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32), "stop")

    @classmethod
    def without_room(cls, prompt_length: int, context: int) -> Generation:
        """Return a generation without tokens, as the prompt fills the context; both are counted in tokens."""
        return cls.failed("prompt", f"{prompt_length} tokens leave no room in the engine's context of {context}")


class Engine(Protocol):
    """Samples completions from the policy it has loaded; each has a seed of its own, so it can be drawn again alone."""

    @property
    def policy_hash(self) -> str:
        """The identity of the loaded policy, or an empty string."""
        ...

    @property
    def metrics(self) -> Mapping[str, float]:
        """What the last `load_policy` measured, by the names of a round's metrics."""
        ...

    def load_policy(self, policy: Policy) -> None:
        """Sample from this policy from now on. Raises EngineError if it cannot be shown that the engine does."""
        ...

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        seeds: Sequence[int],
        progress: Progress = silent,
    ) -> list[Generation]:
        """Return one completion per prompt, in the same order. Equal prompts are encoded once.

        `seeds` has one per prompt. `progress` counts completions; one that is being sampled may count as the share of
        the length it can reach.
        """
        ...

    def close(self) -> None:
        """Free the engine's memory and end its processes."""
        ...


def check_request(prompts: Sequence[Sequence[int]], seeds: Sequence[int]) -> None:
    """Raise ValueError for an empty prompt and for another number of seeds than of prompts."""
    if len(seeds) != len(prompts):
        raise ValueError(f"{len(prompts)} prompts need as many seeds, not {len(seeds)}")
    if not all(map(len, prompts)):
        raise ValueError(f"prompt {[len(prompt) for prompt in prompts].index(0)} has no token to go on from")
