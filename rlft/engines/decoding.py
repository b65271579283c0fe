"""Decoders, which compute next-token logits for a batch of completions (rows) while these grow token by token.

`SharedDecoder` and `RecordedDecoder` keep what prompts have in common once for all rows, `PlainDecoder` works with any
model of transformers. Rows that have ended are taken out of the batch when that is worth a copy; until then they are
fed along.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rlft.errors import PolicyError
from rlft.models import Policy
from rlft.models.attention.cache import TreeCache
from rlft.models.attention.interface import attending
from rlft.models.attention.packed import Tree

_log = logging.getLogger(__name__)
Prompts = Sequence[Sequence[int]]
_WORTH_RECORDING = 16  # new tokens from which recording a CUDA graph is worth its time
_CACHES = ("past_key_values", "cache_params")  # names of the cache in a model's output; the second is of recurrent ones


class Decoder(Protocol):
    """Computes next-token logits [rows, vocabulary] for rows that all get one more token at a time."""

    def prefill(self) -> Tensor:
        """Return the logits after the prompts."""
        ...

    def step(self, tokens: Tensor) -> Tensor:
        """Return the logits after one more token for each row; `tokens` is [rows]."""
        ...

    def keep(self, rows: Tensor) -> bool:
        """Take out all rows but these (indices) and return true; false means that all rows must still be fed."""
        ...


def make_decoder(policy: Policy, prompts: Prompts, capacity: int) -> Decoder:
    """Return the fastest decoder that works with the model, for at most `capacity` new tokens per row."""
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
            _log.info("tokens are sampled without recording, which is slower: %s", str(cause).partition("\n")[0])
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
