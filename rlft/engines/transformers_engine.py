"""Samples with the trainer's own model, so there is one copy of the weights and nothing to synchronise.

`sample` draws one token per row from the logits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from transformers.generation.logits_process import MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from rlft.engines.base import Generation, Sampling, check_request
from rlft.engines.decoding import make_decoder
from rlft.models import Policy
from rlft.models.fused import Replacement, fused
from rlft.progress import Meter, Progress, silent


class TransformersEngine:
    """Samples token by token over a key-value cache, `batch_size` completions at a time.

    What prompts of a batch have in common at their beginning is encoded once; rows (completions) that have ended leave
    the batch. Every completion draws from its own seed, so a draw does not depend on what else is in the batch;
    log-probabilities do, by the rounding of differently shaped matrix products.
    """

    def __init__(self, batch_size: int = 256) -> None:
        self.batch_size = batch_size
        self.policy: Policy | None = None

    @property
    def policy_hash(self) -> str:
        """The identity of the loaded policy, or an empty string."""
        return self.policy.identity if self.policy else ""

    @property
    def metrics(self) -> dict[str, float]:
        """No metrics, since no weights are pushed."""
        return {}

    def load_policy(self, policy: Policy) -> None:
        """Sample from this live policy from now on; nothing is copied."""
        self.policy = policy

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        seeds: Sequence[int],
        progress: Progress = silent,
    ) -> list[Generation]:
        """Return one completion per prompt and seed, in the same order.

        In `progress` an unfinished completion counts as the share of `max_completion_length` that it has reached.

        Raises RuntimeError if no policy is loaded; ValueError for an empty prompt, for one that fills the model's
        context, and for another number of seeds than of prompts.
        """
        if self.policy is None:
            raise RuntimeError("load_policy first")
        check_request(prompts, seeds)
        policy = self.policy
        policy.model.eval()
        results: dict[int, Generation] = {}
        meter = Meter(progress, len(prompts), "completions")
        faster: list[Replacement] = []  # on a CPU they gain nothing without gradients
        if policy.device.type == "cuda":
            policy.find_out()  # before `fused` replaces parts of the model
            faster = policy.fusible
        with torch.inference_mode(), fused(faster):
            for places in _batches(policy, prompts, sampling.max_completion_length, self.batch_size):
                rows, numbers = [prompts[place] for place in places], [seeds[place] for place in places]
                results |= zip(places, _generate_batch(policy, rows, sampling, numbers, meter), strict=True)
        return [results[place] for place in range(len(prompts))]

    def close(self) -> None:
        """Drop the policy."""
        self.policy = None


def _batches(policy: Policy, prompts: Sequence[Sequence[int]], length: int, size: int) -> Iterator[list[int]]:
    """Yield the indices of prompts that are sampled together, at most `size`.

    Prompts may be padded on the left, which must not push a row past the end of the context. If any might reach it,
    prompts of different lengths are sampled apart, unless prompts are shared, which are padded on the right.
    """
    context = policy.context_length
    full = context is not None and max(map(len, prompts), default=0) + length > context
    apart = full and not policy.shares_prompts
    places: dict[int, list[int]] = defaultdict(list)
    for place, prompt in enumerate(prompts):
        places[len(prompt) if apart else 0].append(place)
    for alike in places.values():
        yield from (alike[start : start + size] for start in range(0, len(alike), size))


def _generate_batch(
    policy: Policy, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int], meter: Meter
) -> Iterator[Generation]:
    """Sample one batch and yield its generations in the order of the prompts."""
    stop_ids = torch.tensor(policy.stop_token_ids(), dtype=torch.int64, device=policy.device)
    uniforms = _uniforms(seeds, sampling).to(policy.device)
    width = sampling.max_completion_length
    lengths = _limits(policy, prompts, width).to(policy.device)
    tokens = torch.zeros(len(prompts), width, dtype=torch.int64, device=policy.device)
    logprobs = torch.zeros(len(prompts), width, device=policy.device)
    stopped = torch.zeros(len(prompts), dtype=torch.bool, device=policy.device)
    decoder = make_decoder(policy, prompts, int(lengths.max()))
    logits, rows = decoder.prefill(), torch.arange(len(prompts), device=policy.device)
    going_on, counted = len(prompts), 0.0
    for position in range(width):
        chosen, chosen_logprobs = sample(logits, uniforms[rows, position], sampling)
        tokens[rows, position], logprobs[rows, position] = chosen, chosen_logprobs
        # Rows that have ended and are still fed must not end again.
        ended = torch.isin(chosen, stop_ids) & (lengths[rows] > position)
        lengths[rows[ended]], stopped[rows[ended]] = position + 1, True
        alive = (lengths[rows] > position + 1).nonzero().squeeze(-1)
        reached = len(prompts) - len(alive) * (1 - (position + 1) / width)
        meter.add(reached - counted, tokens=going_on)
        going_on, counted = len(alive), reached
        if len(alive) == 0:
            break
        if len(alive) < len(rows) and decoder.keep(alive):
            rows, chosen = rows[alive], chosen[alive]
        logits = decoder.step(chosen)
    found = zip(tokens.cpu().numpy(), logprobs.cpu().numpy(), lengths.tolist(), stopped.tolist(), strict=True)
    for row, row_logprobs, count, stop in found:
        yield Generation(row[:count].astype(np.int32), row_logprobs[:count], "stop" if stop else "length")


def _limits(policy: Policy, prompts: Sequence[Sequence[int]], length: int) -> Tensor:
    """Return how many tokens each row may get: `length`, or what the model's context has left after the prompt."""
    context = policy.context_length
    room = [length if context is None else min(length, context - len(prompt)) for prompt in prompts]
    if min(room) < 1:
        raise ValueError(f"a prompt of {max(map(len, prompts))} tokens leaves no room in a context of {context}")
    return torch.tensor(room)


def _uniforms(seeds: Sequence[int], sampling: Sampling) -> Tensor:
    """Return one uniform number in [0, 1) per row and position, each row from its own seed.

    They are zeros for greedy decoding.
    """
    if sampling.temperature == 0:
        return torch.zeros(len(seeds), sampling.max_completion_length, dtype=torch.float64)
    draws = [np.random.Generator(np.random.Philox(seed)).random(sampling.max_completion_length) for seed in seeds]
    return torch.from_numpy(np.stack(draws))


_BLOCK = 512  # tokens of the vocabulary whose probabilities are summed up before they are looked at one by one


def sample(logits: Tensor, uniform: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Draw by inverting the cumulative distribution at `uniform`; temperature 0 takes the likeliest token.

    Args:
        logits: Float [rows, vocabulary].
        uniform: Float64 [rows], in [0, 1).
        sampling: Temperature, and how the distribution is truncated.

    Returns:
        Token ids [rows] and their natural log-probabilities [rows] (float32) under the distribution drawn from; for
        temperature 0, under temperature 1.
    """
    scaled = logits.float()
    if sampling.temperature == 0:
        chosen = scaled.argmax(-1)
    else:
        scaled = _truncate(scaled / sampling.temperature, sampling)
        chosen = _invert(scaled.softmax(-1), uniform)
    chosen_logits = scaled.gather(-1, chosen[:, None]).squeeze(-1)
    return chosen, chosen_logits - scaled.logsumexp(-1)


def _truncate(scaled: Tensor, sampling: Sampling) -> Tensor:
    """Return the logits with minus infinity where `top_k`, `top_p` or `min_p`, in this order, truncate them."""
    unused = torch.empty(0, dtype=torch.int64)  # the token ids so far, which these do not look at
    if 0 < sampling.top_k < scaled.shape[-1]:
        scaled = TopKLogitsWarper(sampling.top_k)(unused, scaled)  # type: ignore[reportArgumentType]
    if sampling.top_p < 1:
        scaled = TopPLogitsWarper(sampling.top_p)(unused, scaled)  # type: ignore[reportArgumentType]
    if sampling.min_p > 0:
        scaled = MinPLogitsWarper(sampling.min_p)(unused, scaled)  # type: ignore[reportArgumentType]
    return scaled


def _invert(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """Return the token ids [rows] at which the cumulative distribution first exceeds `uniform`.

    The sum runs in float64, first over blocks and then inside the one that is hit. In float32 a running sum over a
    large vocabulary would round small probabilities away.
    """
    rows, size = probabilities.shape
    padded = torch.nn.functional.pad(probabilities, (0, -size % _BLOCK))
    blocks = padded.view(rows, -1, _BLOCK)
    by_block = blocks.sum(-1).double().cumsum(-1)
    block, point = _hit(by_block, uniform * by_block[:, -1])
    before = by_block.gather(-1, (block - 1).clamp(min=0)[:, None]).squeeze(-1).where(block > 0, 0.0)
    inside = blocks[torch.arange(rows, device=blocks.device), block].double().cumsum(-1)
    place, _ = _hit(inside, point - before)
    return block * _BLOCK + place


def _hit(cumulative: Tensor, point: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first place [rows] whose cumulative sum is above `point`, and the point.

    Rounding may have pushed the point past the last sum or below 0; it is moved back, so that there is such a place.
    """
    below = torch.nextafter(cumulative[:, -1], torch.zeros_like(point))
    point = point.clamp(min=0.0).minimum(below)
    return torch.searchsorted(cumulative, point[:, None], right=True).squeeze(-1), point
