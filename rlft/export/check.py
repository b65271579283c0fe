"""Whether an exported folder is its policy: log-probabilities of the policy's greedy answers to canary prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rlft.engines.base import Sampling
from rlft.engines.proof import MAX_LOGPROB_DIFFERENCE, Canaries, score_rows
from rlft.engines.transformers_engine import TransformersEngine
from rlft.errors import PolicyError
from rlft.models import Policy
from rlft.models.tokens import render_prompt

_TEXTS = (
    "What is 17 + 25? Answer with the number.",
    "Name the capital of France.",
    "Write one sentence about a dog that finds a ball.",
    "Translate 'good morning' to German.",
)
_NEW_TOKENS = 16


@dataclass(frozen=True, slots=True)
class ExportCheck:
    """What a comparison of a policy with its export found.

    The policy answers `prompts` canary prompts greedily, with `tokens` tokens in all. `max_difference` and
    `mean_difference` (in nats) are those between the log-probabilities that both give these tokens, and `limit` is the
    largest that rounding explains.
    """

    prompts: int
    tokens: int
    policy_dtype: str
    export_dtype: str
    max_difference: float
    mean_difference: float
    limit: float

    def as_json(self) -> dict[str, Any]:
        """Return the check as it stands in `rlft_export.json`."""
        return asdict(self)

    def raise_if_other(self, where: str) -> None:
        """Raise PolicyError if the export is not the policy, `where` naming the policy."""
        if not self.max_difference <= self.limit:
            raise PolicyError(
                f"the exported model is another one: log-probabilities of canary tokens differ by "
                f"{self.max_difference:.3g}, more than the {self.limit:g} that rounding explains",
                where=where,
                fix="nothing was written; this is an error of rlft, peft or transformers with this model: please "
                "report it with the name of the base",
            )


@dataclass(frozen=True, slots=True)
class Answers:
    """A policy's greedy answers to the canary prompts: token ids, and their log-probabilities in nats."""

    prompts: tuple[tuple[int, ...], ...]
    token_ids: tuple[tuple[int, ...], ...]
    logprobs: np.ndarray


def canary_prompts(policy: Policy) -> tuple[tuple[int, ...], ...]:
    """Return prompts of fixed random tokens, and some texts as this policy reads them; all leave room for an answer."""
    vocabulary, context = policy.model.config.get_text_config().vocab_size, policy.context_length
    texts = [render_prompt(policy.tokenizer, [{"role": "user", "content": text}]) for text in _TEXTS]
    fitting = [text for text in texts if text and (context is None or len(text) + _NEW_TOKENS <= context)]
    longest = None if context is None else max(context - _NEW_TOKENS, 1)
    random = [prompt[:longest] for prompt in Canaries(vocabulary, context).prompts]
    return tuple(tuple(prompt) for prompt in [*random, *fitting])


def answer_canaries(policy: Policy, prompts: Sequence[tuple[int, ...]]) -> Answers:
    """Return the policy's greedy answers, and what it makes of them."""
    token_ids = _greedy(policy, prompts)
    return Answers(tuple(prompts), token_ids, _scores(policy, prompts, token_ids))


def compare(policy: Answers, exported: Policy, policy_dtype: str) -> ExportCheck:
    """Compare the answers of a policy with those of its export, loaded again from its folder."""
    gap = np.abs(policy.logprobs - _scores(exported, policy.prompts, policy.token_ids))
    dtype = str(next(exported.model.parameters()).dtype).removeprefix("torch.")
    both_exact = policy_dtype == dtype == "float32"
    is_finite = bool(np.isfinite(gap).all())
    return ExportCheck(
        prompts=len(policy.prompts),
        tokens=sum(map(len, policy.token_ids)),
        policy_dtype=policy_dtype,
        export_dtype=dtype,
        max_difference=float(gap.max()) if is_finite else float("inf"),
        mean_difference=float(gap.mean()) if is_finite else float("inf"),
        limit=MAX_LOGPROB_DIFFERENCE["float32" if both_exact else "bfloat16"],
    )


def _greedy(policy: Policy, prompts: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    engine = TransformersEngine()
    engine.load_policy(policy)
    found = engine.generate(prompts, Sampling(0.0, _NEW_TOKENS), range(len(prompts)))
    return tuple(tuple(one.token_ids.tolist()) for one in found)


def _scores(policy: Policy, prompts: Sequence[tuple[int, ...]], answers: Sequence[tuple[int, ...]]) -> np.ndarray:
    return score_rows(policy, list(zip(prompts, answers, strict=True)))
