"""Scores given tokens with the trainer's model, to be compared with the log-probabilities that an engine reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from rlft.policy import Policy

_UNIT = {"float32": 2.0**-23, "bfloat16": 2.0**-8}  # the relative rounding of one number

Row = tuple[Sequence[int], Sequence[int]]  # a prompt and the tokens after it


def score_tokens(
    policy: Policy, prompt: Sequence[int], token_ids: Sequence[int], temperature: float = 1.0
) -> np.ndarray:
    """Return the natural log-probabilities (float64 [tokens]) that the policy gives these tokens after the prompt."""
    return _score(policy, [(prompt, token_ids)], temperature)


def score_rows(policy: Policy, rows: Sequence[Row], *, jitter: bool = False) -> np.ndarray:
    """Score all rows, neighbouring ones with prompts of one length together; `jitter` rounds embeddings differently."""
    with _jittered(policy) if jitter else nullcontext():
        groups = groupby(rows, key=lambda row: len(row[0]))
        return np.concatenate([_score(policy, list(group), 1.0) for _, group in groups])


@torch.no_grad()
def _score(policy: Policy, rows: Sequence[Row], temperature: float) -> np.ndarray:
    """Score rows whose prompts have one length; their tokens are padded on the right, where none of them sees it."""
    policy.model.eval()
    longest, start = max(len(tokens) for _, tokens in rows), len(rows[0][0])
    padded = [[*prompt, *tokens, *[0] * (longest - len(tokens))] for prompt, tokens in rows]
    ids = torch.tensor(padded, device=policy.device)
    hidden = policy.split.backbone(logits_to_keep=longest + 1, input_ids=ids, use_cache=False)
    logits = policy.split.head.logits(hidden)[:, :-1]
    chosen = (logits.double() / temperature).log_softmax(-1).gather(-1, ids[:, start:, None]).squeeze(-1).cpu().numpy()
    return np.concatenate([row[: len(tokens)] for row, (_, tokens) in zip(chosen, rows, strict=True)])


@contextmanager
def _jittered(policy: Policy) -> Iterator[None]:
    """Make every number of the embeddings one unit of rounding larger or smaller, by signs that are always the same."""

    def jitter(module: object, inputs: object, embedded: Tensor) -> Tensor:
        draw = torch.Generator().manual_seed(0)
        signs = torch.randint(2, embedded.shape, generator=draw).to(embedded.device, embedded.dtype) * 2 - 1
        return embedded * (1 + _UNIT.get(str(embedded.dtype).removeprefix("torch."), 2.0**-10) * signs)

    hook = policy.model.get_input_embeddings().register_forward_hook(jitter)
    try:
        yield
    finally:
        hook.remove()
