"""Samples with the trainer's own model, so there is one copy of the weights and nothing to synchronise.

`sample` draws one token per row from the logits. Decoders compute these for a batch of completions (rows) while they
grow token by token: `SharedDecoder` and `RecordedDecoder` keep what prompts have in common once for all rows,
`PlainDecoder` works with any model of transformers. Rows that have ended are taken out of the batch when that is worth
a copy; until then they are fed along.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers.generation.logits_process import MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from rlft.engines.base import Generation, Sampling, check_request
from rlft.errors import PolicyError
from rlft.models import Policy
from rlft.models.attention.cache import TreeCache
from rlft.models.attention.interface import attending
from rlft.models.attention.packed import Tree
from rlft.models.fused import Replacement, fused
from rlft.progress import Meter, Progress, silent

logger = logging.getLogger(__name__)
Prompts = Sequence[Sequence[int]]
_WORTH_RECORDING = 16  # new tokens from which recording a CUDA graph is worth its time
_CACHES = ("past_key_values", "cache_params")  # names of the cache in a model's output; the second is of recurrent ones


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


def make_decoder(policy: Policy, prompts: Prompts, capacity: int) -> SharedDecoder | PlainDecoder:
    """Return the fastest decoder that works with the model, for at most `capacity` new tokens per row.

    It computes next-token logits [rows, vocabulary] for rows that all get one more token at a time.
    """
    if policy.shares_prompts and policy.device.type == "cuda" and capacity >= _WORTH_RECORDING:
        return RecordedDecoder(policy, prompts, capacity)
    kind = SharedDecoder if policy.shares_prompts else PlainDecoder
    return kind(policy, prompts, capacity)


class SharedDecoder:
    """Decodes with the keys and values of every common beginning kept once (`rlft.models.attention.cache`)."""

    fixed = False  # whether every step does the same operations on the same memory; see `TreeCache`

    def __init__(self, policy: Policy, prompts: Prompts, capacity: int) -> None:
        self.policy, self.split = policy, policy.split
        self.prompts = list(dict.fromkeys(map(tuple, prompts)))
        self.tree = Tree.of(self.prompts)
        numbers = {prompt: number for number, prompt in enumerate(self.prompts)}
        rows = [numbers[tuple(prompt)] for prompt in prompts]
        self.cache = TreeCache(self.tree, rows, capacity, fixed=self.fixed)
        self.rows = torch.tensor(rows, device=policy.device)
        self.positions = torch.tensor([len(prompt) for prompt in prompts], device=policy.device)

    def prefill(self) -> Tensor:
        """Encode what is different in the prompts, as one row."""
        ids, positions = (torch.from_numpy(part)[None].to(self.policy.device) for part in self.tree.row(self.prompts))
        hidden = self._read(ids, positions)
        self.cache.begin_rows()
        last = torch.tensor([int(places[-1]) for places in self.tree.places], device=hidden.device)
        return self.split.head.logits(hidden[0, last])[self.rows]

    def step(self, tokens: Tensor) -> Tensor:
        """Return the logits after one more token; the cache grows in place."""
        logits = self._next_logits(tokens)
        self.cache.advance()
        self.positions = self.positions + 1
        return logits

    def keep(self, rows: Tensor) -> bool:
        """Take out all rows but these if that saves more than copying the cache costs."""
        kept = self.cache.keep(rows)
        if kept:
            self.positions = self.positions[rows]
        return kept

    def _read(self, ids: Tensor, positions: Tensor) -> Tensor:
        with attending(self.policy.model):
            return self.split.backbone(input_ids=ids, position_ids=positions, use_cache=False, attention=self.cache)

    def _next_logits(self, tokens: Tensor) -> Tensor:
        context = self.policy.context_length
        # Rows that have ended are fed along, and must not ask for a position beyond the model's last one.
        positions = self.positions if context is None else self.positions.clamp(max=context - 1)
        return self.split.head.logits(self._read(tokens[:, None], positions[:, None])[:, 0])


class RecordedDecoder(SharedDecoder):
    """Records the operations of one token as a CUDA graph and replays it, as launching them takes longer than they do.

    A model whose operations cannot be recorded, such as one that waits for the GPU, is run as by `SharedDecoder`.
    """

    fixed, possible = True, True  # `possible` until recording has failed

    def __init__(self, policy: Policy, prompts: Prompts, capacity: int) -> None:
        super().__init__(policy, prompts, capacity)
        self.recording: torch.cuda.CUDAGraph | None = None
        self.tokens = self.logits = torch.empty(0)

    def step(self, tokens: Tensor) -> Tensor:
        """Return the logits after one more token, which the next call overwrites; the cache grows in place."""
        if self.possible and self.recording is None:
            self._record(tokens)
        if self.recording is None:
            return super().step(tokens)
        self.tokens.copy_(tokens)
        self.recording.replay()
        self.cache.advance()
        self.positions += 1
        return self.logits

    def keep(self, rows: Tensor) -> bool:
        """Take rows out as `SharedDecoder` does; the operations are then other ones and must be recorded again."""
        kept = super().keep(rows)
        if kept:
            self.recording = None
        return kept

    def _record(self, tokens: Tensor) -> None:
        """Record the operations of one token, or note that it is not possible.

        The token is run here and again by the replay or by `SharedDecoder`. That is harmless: as the cache does not
        advance, each run writes the same numbers to the same place.
        """
        self.tokens, self.positions = tokens.clone(), self.positions.clone()
        recording = torch.cuda.CUDAGraph()
        self._next_logits(self.tokens)  # what the first call alone makes, as the cache of the rows, is not recorded
        try:
            with torch.cuda.graph(recording, capture_error_mode="thread_local"):  # others may train meanwhile
                self.logits = self._next_logits(self.tokens)
        except RuntimeError as cause:
            self.possible = False
            logger.info("tokens are sampled without recording, which is slower: %s", str(cause).partition("\n")[0])
        else:
            self.recording = recording


class PlainDecoder:
    """Decodes with transformers' own cache, in which each row has a copy of its prompt's keys and values.

    Prompts are padded on the left.
    """

    def __init__(self, policy: Policy, prompts: Prompts, capacity: int) -> None:
        del capacity  # this cache grows as it goes
        self.policy, self.prompts = policy, prompts
        self.mask = torch.empty(0)
        self.cache_name = ""
        self.cache: Any = None

    def prefill(self) -> Tensor:
        """Encode each different prompt once and copy its cache to its rows.

        Raises PolicyError for a model that returns no cache of a known name.
        """
        unique = {tuple(prompt): index for index, prompt in enumerate(dict.fromkeys(map(tuple, self.prompts)))}
        prompts = [torch.tensor(prompt, device=self.policy.device) for prompt in unique]
        ids = pad_sequence(prompts, batch_first=True, padding_side="left")
        mask = pad_sequence(list(map(torch.ones_like, prompts)), batch_first=True, padding_side="left")
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        output = self.policy.model(
            input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1
        )
        rows = torch.tensor([unique[tuple(prompt)] for prompt in self.prompts], device=self.policy.device)
        self.cache_name = next((name for name in _CACHES if output.get(name) is not None), "")
        if not self.cache_name:
            raise PolicyError(
                f"{type(self.policy.model).__name__} gives no cache that rlft knows",
                where="policy.model",
                fix="use a model that returns past_key_values or cache_params",
            )
        self.cache, self.mask = output[self.cache_name], mask
        self.keep(rows)
        return output.logits[rows, -1]

    def step(self, tokens: Tensor) -> Tensor:
        """Return the logits after one more token; transformers' cache is copied to grow."""
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(tokens), 1)], dim=1)
        inputs = {"attention_mask": self.mask, "position_ids": self.mask.sum(-1, keepdim=True) - 1}
        if self.cache_name == "cache_params":  # a recurrent state: there are no past tokens to be masked or counted
            inputs = {}
        output = self.policy.model(input_ids=tokens[:, None], use_cache=True, **inputs, **{self.cache_name: self.cache})
        return output.logits[:, -1]

    def keep(self, rows: Tensor) -> bool:
        """Take out all rows but these, always: the cache is copied at every step anyhow."""
        self.cache.reorder_cache(rows)  # unlike `batch_select_indices`, the cache layers of all models have it
        self.mask = self.mask[rows]
        return True
