"""Proof that an engine samples with the trainer's weights: fixed canary prompts, sampled by one and scored by both.

Weights that did not arrive, arrived in the wrong place, or stand beside a cache of the old ones show in the
log-probabilities of what is sampled next. So does any difference between the two implementations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from rlft.engines.base import Generation, Sampling
from rlft.errors import EngineError
from rlft.policy import Policy

# What the rounding of two implementations may come to in one token's log-probability.
MAX_LOGPROB_DIFFERENCE = {"float32": 1e-4, "bfloat16": 0.5}
PUSH_SECONDS, CANARY_DIFFERENCE = "engine/push_seconds", "engine/canary_logp_difference"  # metrics of a round
SERVERS = "engine/servers"
_VISIBLE = {"float32": 1e-6, "bfloat16": 1e-2}  # smaller moves of a log-probability may be rounding
_LENGTHS = (1, 7, 24, 300)  # tokens; the last is longer than a block of any cache
_NEW_TOKENS = 8
_COOLER = 0.5  # the temperature of the last canary
# Beyond what two implementations differ by from push to push, engine and trainer must have moved alike.
_NOISE = {"float32": 5e-5, "bfloat16": 0.2}
_CLOSER = 8  # an engine that moved less than this part of what the trainer moved did not follow

Generate = Callable[[Sequence[Sequence[int]], Sampling, Sequence[int]], list[Generation]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the canaries showed after a push: tokens and their log-probabilities by engine and trainer.

    `difference` is the largest between the two, in nats.
    """

    policy: str
    token_ids: tuple[int, ...]
    by_engine: np.ndarray
    by_trainer: np.ndarray

    @property
    def difference(self) -> float:
        """Infinite where one of them is no number."""
        gap = np.abs(self.by_engine - self.by_trainer)
        return float(gap.max()) if np.isfinite(gap).all() else float("inf")


class Canaries:
    """Prompts of fixed random tokens that every policy of a run is asked; they do not depend on it."""

    def __init__(self, vocabulary: int, context: int | None) -> None:
        draw = np.random.default_rng(0)
        longest = max((context or 1 << 30) - _NEW_TOKENS, 1)
        self.prompts = [draw.integers(vocabulary, size=min(length, longest)).tolist() for length in _LENGTHS]
        self.sampling = Sampling(temperature=1.0, max_completion_length=_NEW_TOKENS)
        self._asked = self.prompts[1]

    def warm_cache(self, generate: Generate) -> None:
        """Before a push: the longest prompt is in the engine's cache, as prompts of the last round are."""
        generate(self.prompts[-1:], Sampling(1.0, 1), [0])

    def ask(self, generate: Generate, policy: Policy) -> Evidence:
        """Sample with the engine, and score the same tokens with the policy. Raises EngineError when it fails.

        One prompt is asked at another temperature too: an engine may report log-probabilities before temperature.
        """
        cooler = Sampling(_COOLER, _NEW_TOKENS)
        found = [
            *generate(self.prompts, self.sampling, range(len(self.prompts))),
            *generate([self._asked], cooler, [0]),
        ]
        for generation in found:
            if generation.error is not None:
                raise EngineError(f"the engine did not answer its canary prompts: {generation.error}")
        temperatures = [1.0] * len(self.prompts) + [_COOLER]
        rows = zip([*self.prompts, self._asked], found, temperatures, strict=True)
        scored = [score_tokens(policy, prompt, one.token_ids.tolist(), degrees) for prompt, one, degrees in rows]
        return Evidence(
            policy=policy.identity,
            token_ids=tuple(int(token) for generation in found for token in generation.token_ids),
            by_engine=np.concatenate([generation.logprobs for generation in found]).astype(np.float64),
            by_trainer=np.concatenate(scored),
        )


def check_evidence(
    now: Evidence, before: Evidence | None, dtype: str, limit: float | None, engine: str = "the engine"
) -> None:
    """Raises EngineError when the engine does not have the trainer's weights.

    `before` is the evidence of the policy that the engine had; `limit` replaces the largest difference of `dtype`;
    `engine` is what the message calls it.
    """
    limit = MAX_LOGPROB_DIFFERENCE[dtype] if limit is None else limit
    if not now.difference <= limit:
        raise EngineError(
            f"{engine} does not sample with the policy's weights: its log-probabilities of canary tokens differ by "
            f"{now.difference:.3g} from the trainer's, more than {limit:g}",
            where="rollout.max_logprob_difference",
            fix="if the first round already differs so much, the engine computes this model in another way: look at "
            "its log, or set rollout.engine: transformers",
        )
    if before is None or before.policy == now.policy or before.token_ids != now.token_ids:
        return
    moved = float(np.abs(now.by_trainer - before.by_trainer).max())
    followed = float(np.abs(now.by_engine - before.by_engine).max())
    apart = now.by_engine - before.by_engine - (now.by_trainer - before.by_trainer)
    noise = max(_CLOSER * before.difference, _NOISE[dtype])
    stayed = moved > _VISIBLE[dtype] and followed < moved / _CLOSER
    if stayed or float(np.abs(apart).max()) > max(noise, moved / 2):
        raise EngineError(
            f"{engine} still samples with the weights it had: the policy's log-probabilities of canary tokens moved "
            f"by {moved:.3g}, the engine's by {followed:.3g}",
            where="rollout.engine",
            fix="this is an error of the engine or of rlft: please report it; rollout.engine: transformers goes on",
        )


@torch.no_grad()
def score_tokens(
    policy: Policy, prompt: Sequence[int], token_ids: Sequence[int], temperature: float = 1.0
) -> np.ndarray:
    """Natural log-probabilities (float64) that the policy gives these tokens after the prompt."""
    policy.model.eval()
    row = torch.tensor([[*prompt, *token_ids]], device=policy.device)
    hidden = policy.split.backbone(logits_to_keep=len(token_ids) + 1, input_ids=row, use_cache=False)
    logits = policy.split.head.logits(hidden)[0, :-1]
    chosen = (logits.double() / temperature).log_softmax(-1).gather(-1, row[0, len(prompt) :, None])
    return chosen.squeeze(-1).cpu().numpy()
