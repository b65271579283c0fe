"""Sampling with the trainer's own model: one copy of the weights, nothing to synchronise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlft.engines.base import Generation, Sampling
from rlft.policy import Policy


class TransformersEngine:
    """Token-by-token sampling over a key-value cache.

    Each different prompt of a batch is encoded once and its cache copied to its samples; rows that have ended leave
    the batch. Every rollout draws from its own seed, so a draw does not depend on who else is in the batch (its
    log-probabilities do, by the rounding of differently shaped matrix products).
    """

    def __init__(self, batch_size: int = 256) -> None:
        self.batch_size = batch_size
        self.policy: Policy | None = None

    @property
    def policy_hash(self) -> str:
        """Weights hash of the loaded policy, or an empty string."""
        return self.policy.metadata.weights_hash if self.policy else ""

    def load_policy(self, policy: Policy) -> None:
        """Sample from this live policy from now on; nothing is copied."""
        self.policy = policy

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]) -> list[Generation]:
        """One completion per prompt and seed, in the same order. Raises RuntimeError when no policy is loaded."""
        if self.policy is None:
            raise RuntimeError("load_policy first")
        policy = self.policy
        policy.model.eval()
        results: list[Generation] = []
        with torch.inference_mode():
            for start in range(0, len(prompts), self.batch_size):
                part = slice(start, start + self.batch_size)
                results.extend(_generate_batch(policy, prompts[part], sampling, seeds[part]))
        return results

    def close(self) -> None:
        """Forget the policy."""
        self.policy = None


def _generate_batch(
    policy: Policy, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
) -> Iterator[Generation]:
    """Sample one batch; rows keep their place in the output however early they end."""
    stop_ids = torch.tensor(policy.stop_token_ids(), dtype=torch.int64, device=policy.device)
    uniforms = _uniforms(seeds, sampling).to(policy.device)
    logits, cache, mask = _encode(policy, prompts)
    length = sampling.max_completion_length
    tokens = torch.zeros(len(prompts), length, dtype=torch.int64, device=policy.device)
    logprobs = torch.zeros(len(prompts), length, device=policy.device)
    lengths = _limits(policy, prompts, length).to(policy.device)
    stopped = torch.zeros(len(prompts), dtype=torch.bool, device=policy.device)
    live = torch.arange(len(prompts), device=policy.device)
    for position in range(length):
        chosen, chosen_logprobs = _sample(logits, uniforms[live, position], sampling.temperature)
        tokens[live, position], logprobs[live, position] = chosen, chosen_logprobs
        ended = torch.isin(chosen, stop_ids)
        lengths[live[ended]], stopped[live[ended]] = position + 1, True
        leaves = ended | (lengths[live] <= position + 1)
        if leaves.any():
            keep = (~leaves).nonzero().squeeze(-1)
            live, chosen, mask = live[keep], chosen[keep], mask[keep]
            if len(live) == 0:
                break
            cache.batch_select_indices(keep)
        if position + 1 < length:
            mask = torch.cat([mask, mask.new_ones(len(live), 1)], dim=1)
            logits = _forward(policy, chosen[:, None], mask, cache)
    rows = zip(tokens.cpu().numpy(), logprobs.cpu().numpy(), lengths.tolist(), stopped.tolist(), strict=True)
    for row, row_logprobs, count, stop in rows:
        yield Generation(row[:count].astype(np.int32), row_logprobs[:count], "stop" if stop else "length")


def _limits(policy: Policy, prompts: Sequence[Sequence[int]], length: int) -> Tensor:
    """How many tokens each row may get: `length`, or what the model's context has left after the prompt."""
    context = policy.context_length
    room = [length if context is None else min(length, context - len(prompt)) for prompt in prompts]
    if min(room) < 1:
        raise ValueError(f"a prompt of {max(map(len, prompts))} tokens leaves no room in a context of {context}")
    return torch.tensor(room)


def _encode(policy: Policy, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Any, Tensor]:
    """Encode each different prompt once, left-padded; returns next-token logits, cache and mask for every row."""
    unique = {tuple(prompt): index for index, prompt in enumerate(dict.fromkeys(map(tuple, prompts)))}
    width = max(map(len, unique))
    ids = torch.zeros(len(unique), width, dtype=torch.int64)  # what stands left of a prompt is masked
    mask = torch.zeros(len(unique), width, dtype=torch.int64)
    for prompt, index in unique.items():
        ids[index, width - len(prompt) :] = torch.tensor(prompt)
        mask[index, width - len(prompt) :] = 1
    ids, mask = ids.to(policy.device), mask.to(policy.device)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    output = policy.model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1)
    rows = torch.tensor([unique[tuple(prompt)] for prompt in prompts], device=policy.device)
    cache = output.past_key_values
    cache.batch_select_indices(rows)
    return output.logits[rows, -1], cache, mask[rows]


def _forward(policy: Policy, tokens: Tensor, mask: Tensor, cache: Any) -> Tensor:
    """Next-token logits [rows, vocabulary] after one more token per row; the cache grows in place."""
    positions = mask.sum(-1, keepdim=True) - 1
    output = policy.model(
        input_ids=tokens, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True
    )
    return output.logits[:, -1]


def _uniforms(seeds: Sequence[int], sampling: Sampling) -> Tensor:
    """One uniform number in [0, 1) per row and position, each row from its own seed; zeros for greedy decoding."""
    if sampling.temperature == 0:
        return torch.zeros(len(seeds), sampling.max_completion_length, dtype=torch.float64)
    draws = [np.random.Generator(np.random.Philox(seed)).random(sampling.max_completion_length) for seed in seeds]
    return torch.from_numpy(np.stack(draws))


def _sample(logits: Tensor, uniform: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Invert the cumulative distribution at `uniform`, in float64 so that no token of a large vocabulary is lost.

    Returns token ids [rows] and their log-probabilities [rows] (float32) under softmax(logits / temperature).
    """
    scaled = logits.float() / (temperature or 1.0)
    logprobs = scaled.log_softmax(-1)
    if temperature == 0:
        chosen = logits.argmax(-1)
    else:
        cumulative = logprobs.double().exp().cumsum(-1)
        point = (uniform * cumulative[:, -1])[:, None]
        chosen = torch.searchsorted(cumulative, point, right=True).squeeze(-1).clamp(max=logits.shape[-1] - 1)
    return chosen, logprobs.gather(-1, chosen[:, None]).squeeze(-1)
