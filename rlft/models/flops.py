"""Counts floating-point operations (FLOPs) from a model's shape and from token counts, so that budgets can be compared.

A matrix product costs two operations per weight and token forwards, two for the gradient of its input, and two for that
of its weights if they are trained: 2N to sample, 6N to train, 4N under LoRA (arXiv:2001.08361, section 2.1). Looking up
embeddings costs none. Attention is counted as if nothing were masked, as torch's `FlopCounterMode` does. Left out are
norms, activations, and what is computed twice to save memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn
from transformers.pytorch_utils import Conv1D

from rlft.models.attention.packed import Tree
from rlft.types import Rollout

# The metrics of a round. What the model encoded is less than what its sequences have in all, as a common beginning is
# encoded once.
ROLLOUT_FLOPS, TRAIN_FLOPS = "perf/rollout_flops", "perf/train_flops"
ENCODED, OF_SEQUENCES = "perf/tokens_encoded", "perf/tokens_of_sequences"


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Holds how many weights a token meets in matrix products: in the body of the model, and in the head.

    `trained_body` and `trained_head` of them are trained. `attention` is layers times heads times their width.
    """

    body: int
    head: int
    trained_body: int
    trained_head: int
    attention: int

    def forward(self, tokens: float, predicted: float, pairs: float) -> float:
        """Return the FLOPs of reading `tokens`, with logits at `predicted` of them.

        `pairs` counts the (query, key) pairs of attention: the square of the length for a sequence that is read anew.
        """
        return 2 * self.body * tokens + 2 * self.head * predicted + 4 * self.attention * pairs

    def training(self, tokens: float, predicted: float, pairs: float) -> float:
        """Return the FLOPs of the same with gradients."""
        inputs = self.forward(tokens, predicted, pairs) + 4 * self.attention * pairs  # queries and keys, then values
        weights = 2 * self.trained_body * tokens + 2 * self.trained_head * predicted
        return self.forward(tokens, predicted, pairs) + inputs + weights


def shape_of(model: Any) -> ModelShape:
    """Return the shape of a transformers model, of which the parameters with `requires_grad` are trained."""
    config = model.config.get_text_config()
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    head = model.get_output_embeddings()
    products = [m for m in model.modules() if isinstance(m, nn.Linear | Conv1D) and m is not head]
    return ModelShape(
        body=sum(m.weight.numel() for m in products),
        head=head.weight.numel(),
        trained_body=sum(m.weight.numel() for m in products if m.weight.requires_grad),
        trained_head=head.weight.numel() if head.weight.requires_grad else 0,
        attention=config.num_hidden_layers * config.num_attention_heads * width,
    )


def sampling_costs(shape: ModelShape, rollouts: Sequence[Rollout], *, shares_prompts: bool) -> dict[str, float]:
    """Return the FLOPs and tokens of sampling these rollouts as one batch, by the names of a round's metrics.

    All that stands before a turn is read when the turn begins, once for all that have it in common: with
    `shares_prompts` as far as they begin alike, otherwise where they are equal.
    """
    read: dict[int, dict[bytes, np.ndarray]] = {}  # by the number of the turn
    passes: list[tuple[float, float, float]] = []
    for rollout in rollouts:
        for turn, (start, end) in enumerate(_sampled_parts(rollout)):
            before = rollout.token_ids[:start]
            read.setdefault(turn, {})[before.tobytes()] = before
            fed = end - start - 1  # the last token of a turn is read by nobody
            passes.append((fed, fed, fed * start + fed * (fed + 1) / 2))
    for sequences in map(list, map(dict.values, read.values())):
        tokens, pairs = encoded(sequences, shares_prompts=shares_prompts)
        passes.append((tokens, len(sequences), pairs))
    return {
        ROLLOUT_FLOPS: sum(shape.forward(*each) for each in passes),
        ENCODED: float(sum(tokens for tokens, _, _ in passes)),
        OF_SEQUENCES: float(sum(max(len(rollout.token_ids) - 1, 0) for rollout in rollouts)),
    }


def training_flops(
    shape: ModelShape,
    rollouts: Sequence[Rollout],
    *,
    updates: int,
    iterations: int,
    shares_prompts: bool,
    readings: int = 0,
) -> float:
    """Return what a round of GRPO costs on the rollouts that are trained on.

    They are dealt out to `updates`, and gone through `iterations` times. With `shares_prompts` an update reads once
    what its rollouts have in common at their beginning. `readings` passes without gradients are added, such as that of
    the reference. The checks of the KL after an update read a sixteenth of its tokens and are left out.
    """
    sequences = [rollout.token_ids[:-1] for rollout in rollouts]  # the last token is read by nobody
    prompts = [rollout.prompt_length for rollout in rollouts]
    tokens, pairs = encoded(sequences, prompts, times=updates, shares_prompts=shares_prompts)
    place = tokens, sum(int(rollout.loss_mask.sum()) for rollout in rollouts), pairs
    return iterations * shape.training(*place) + readings * shape.forward(*place)


def encoded(
    sequences: Sequence[Sequence[int] | np.ndarray],
    prompts: Sequence[int] | None = None,
    *,
    times: int = 1,
    shares_prompts: bool,
) -> tuple[int, int]:
    """Return how many tokens and pairs of attention it takes to encode sequences of token ids.

    With `shares_prompts` each edge of their tree (`rlft.models.attention`) is read at most `times` times, else each
    sequence by itself.
    """
    if not shares_prompts:
        return sum(map(len, sequences)), sum(len(sequence) ** 2 for sequence in sequences)
    edges = Tree.of(sequences, prompts).edges
    sizes = [(min(edge.count, times), edge.stop - edge.start, edge.depth) for edge in edges]
    return sum(n * size for n, size, _ in sizes), sum(n * size * (depth + size) for n, size, depth in sizes)


def _sampled_parts(rollout: Rollout) -> list[tuple[int, int]]:
    """Return the start and the end of each stretch of tokens that the model sampled."""
    mask = np.concatenate([[0], rollout.loss_mask.astype(np.int8), [0]])
    edges = np.flatnonzero(np.diff(mask)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))
