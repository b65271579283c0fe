"""One more token for every row: with each prompt once for its group, or in the way any transformers model can.

A decoder gives next-token logits [rows, vocabulary]: first those after the prompts, then those after one more token a
row. Rows that have ended are taken out when it pays; until then they are fed along.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from rlft.attention.cache import GroupCache
from rlft.attention.interface import attending
from rlft.errors import PolicyError
from rlft.policy import Policy

_log = logging.getLogger(__name__)
Prompts = Sequence[Sequence[int]]
_WORTH_RECORDING = 16  # new tokens
_CACHES = ("past_key_values", "cache_params")  # what models call it


class Decoder(Protocol):
    """Next-token logits for rows that grow together."""

    def prefill(self) -> Tensor:
        """Logits after the prompts."""
        ...

    def step(self, tokens: Tensor) -> Tensor:
        """Logits after one more token for each row, [rows] in."""
        ...

    def keep(self, rows: Tensor) -> bool:
        """Only these rows live on; true if the others are out, false if they are still to be fed."""
        ...


def make_decoder(policy: Policy, prompts: Prompts, capacity: int) -> Decoder:
    """A decoder for at most `capacity` new tokens a row, the fastest that the model takes."""
    if policy.shares_prompts and policy.device.type == "cuda" and capacity >= _WORTH_RECORDING:
        return RecordedDecoder(policy, prompts, capacity)
    kind = SharedDecoder if policy.shares_prompts else PlainDecoder
    return kind(policy, prompts, capacity)


class SharedDecoder:
    """Keeps each different prompt's keys and values once (`rlft.attention.cache`)."""

    fixed = False

    def __init__(self, policy: Policy, prompts: Prompts, capacity: int) -> None:
        self.policy, self.split = policy, policy.split
        self.prompts = {tuple(prompt): index for index, prompt in enumerate(dict.fromkeys(map(tuple, prompts)))}
        rows = [self.prompts[tuple(prompt)] for prompt in prompts]
        self.cache = GroupCache([len(prompt) for prompt in self.prompts], rows, capacity, fixed=self.fixed)
        self.rows = torch.tensor(rows, device=policy.device)
        self.positions = torch.tensor([len(prompt) for prompt in prompts], device=policy.device)

    def prefill(self) -> Tensor:
        """Encode each different prompt once, padded on the right, where no token sees it."""
        lengths = torch.tensor([len(prompt) for prompt in self.prompts])
        ids = torch.zeros(len(lengths), int(lengths.max()), dtype=torch.int64)
        for prompt, index in self.prompts.items():
            ids[index, : len(prompt)] = torch.tensor(prompt)
        positions = torch.arange(ids.shape[1]).expand_as(ids)
        hidden = self._read(ids.to(self.policy.device), positions.to(self.policy.device))
        self.cache.begin_rows()
        last = hidden[torch.arange(len(lengths)), lengths - 1]
        return self.split.head.logits(last)[self.rows]

    def step(self, tokens: Tensor) -> Tensor:
        """The cache grows in place."""
        context = self.policy.context_length
        positions = self.positions if context is None else self.positions.clamp(max=context - 1)
        hidden = self._read(tokens[:, None], positions[:, None])
        self.cache.advance()
        self.positions = self.positions + 1
        return self.split.head.logits(hidden[:, 0])

    def keep(self, rows: Tensor) -> bool:
        """Copying the cache costs more than feeding a few rows in vain."""
        kept = self.cache.keep(rows)
        if kept:
            self.positions = self.positions[rows]
        return kept

    def _read(self, ids: Tensor, positions: Tensor) -> Tensor:
        with attending(self.policy.model):
            return self.split.backbone(input_ids=ids, position_ids=positions, use_cache=False, attention=self.cache)


class RecordedDecoder(SharedDecoder):
    """Records the operations of one token on a GPU and replays them: launching one by one takes longer than they do.

    A model whose operations cannot be recorded, say because one waits for the GPU, is read as `SharedDecoder` does.
    """

    fixed, possible = True, True

    def __init__(self, policy: Policy, prompts: Prompts, capacity: int) -> None:
        super().__init__(policy, prompts, capacity)
        self.recording: torch.cuda.CUDAGraph | None = None
        self.tokens = self.logits = torch.empty(0)

    def step(self, tokens: Tensor) -> Tensor:
        """The cache grows in place; what it returns is overwritten by the next call."""
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
        """Fewer rows are other operations."""
        kept = super().keep(rows)
        if kept:
            self.recording = None
        return kept

    def _record(self, tokens: Tensor) -> None:
        """Without advancing: reading a token a second time writes the same into the cache."""
        self.tokens, self.positions = tokens.clone(), self.positions.clone()
        recording = torch.cuda.CUDAGraph()
        self._next_logits()  # what is made once, such as the cache of the rows, is not recorded
        try:
            with torch.cuda.graph(recording):
                self.logits = self._next_logits()
        except RuntimeError as cause:
            self.possible = False
            _log.info("tokens are sampled without recording, which is slower: %s", str(cause).partition("\n")[0])
        else:
            self.recording = recording

    def _next_logits(self) -> Tensor:
        context = self.policy.context_length
        positions = self.positions if context is None else self.positions.clamp(max=context - 1)
        return self.split.head.logits(self._read(self.tokens[:, None], positions[:, None])[:, 0])


class PlainDecoder:
    """The cache of transformers, each row with a copy of its prompt's; prompts are padded on the left."""

    def __init__(self, policy: Policy, prompts: Prompts, capacity: int) -> None:
        del capacity  # this cache grows as it goes
        self.policy, self.prompts = policy, prompts
        self.mask = torch.empty(0)
        self.cache_name = ""
        self.cache: Any = None

    def prefill(self) -> Tensor:
        """Encode each different prompt once and copy its cache to its rows."""
        unique = {tuple(prompt): index for index, prompt in enumerate(dict.fromkeys(map(tuple, self.prompts)))}
        width = max(map(len, unique))
        ids = torch.zeros(len(unique), width, dtype=torch.int64)  # what stands left of a prompt is masked
        mask = torch.zeros(len(unique), width, dtype=torch.int64)
        for prompt, index in unique.items():
            ids[index, width - len(prompt) :] = torch.tensor(prompt)
            mask[index, width - len(prompt) :] = 1
        ids, mask = ids.to(self.policy.device), mask.to(self.policy.device)
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
        """The cache grows by a copy."""
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(tokens), 1)], dim=1)
        inputs = {"attention_mask": self.mask, "position_ids": self.mask.sum(-1, keepdim=True) - 1}
        if self.cache_name == "cache_params":  # recurrent throughout: the past is no longer made of tokens
            inputs = {}
        output = self.policy.model(input_ids=tokens[:, None], use_cache=True, **inputs, **{self.cache_name: self.cache})
        return output.logits[:, -1]

    def keep(self, rows: Tensor) -> bool:
        """The cache is copied at every step anyhow."""
        self.cache.reorder_cache(rows)  # unlike `batch_select_indices`, layers of all kinds have it
        self.mask = self.mask[rows]
        return True
