"""An engine in one file: what it can do, and what samples. One that lies in `rlft/engines/kinds/` is found there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rlft.engines.base import Generation, Sampling, check_request
from rlft.engines.kinds import EngineKind
from rlft.progress import Progress, silent

if TYPE_CHECKING:
    from rlft.config import EngineSettings
    from rlft.models import Policy


class Parrot(EngineKind):
    """Repeats the last token of every prompt, `times` times, whatever the policy is."""

    name = "parrot"
    loads_weights = False  # it has none
    adapters = False
    restarts = False
    temperatures = (0.5, 1.5)
    times: int = 2

    def create(self, settings: EngineSettings, batch_size: int) -> ParrotEngine:
        """Return an engine."""
        return ParrotEngine(self.times)


class ParrotEngine:
    """Samples as an `rlft.engines.base.Engine` does."""

    def __init__(self, times: int) -> None:
        self.times, self.policy_hash, self.metrics = times, "", dict[str, float]()

    def load_policy(self, policy: Policy) -> None:
        """Note the policy."""
        self.policy_hash = policy.identity

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        seeds: Sequence[int],
        progress: Progress = silent,
    ) -> list[Generation]:
        """Return one completion per prompt: of probability 1, so that its log-probabilities are 0."""
        check_request(prompts, seeds)
        count = min(self.times, sampling.max_completion_length)
        progress(len(prompts), len(prompts), "completions")
        return [
            Generation(np.full(count, prompt[-1], dtype=np.int32), np.zeros(count, dtype=np.float32), "length")
            for prompt in prompts
        ]

    def close(self) -> None:
        """Do nothing: it has no memory and no processes."""
