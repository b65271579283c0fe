"""Log-probabilities of sampled tokens under a model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlft.training.batching import Batch


def token_logprobs(model: Any, batch: Batch, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probability of every token given those before it, under softmax(logits / temperature).

    Args:
        model: A causal language model.
        batch: Right-padded rollouts [rollouts, tokens].
        temperature: That of the sampling; the distribution sampled from is the one that is trained.

    Returns:
        (logprobs with gradient, entropy without), both float32 [rollouts, tokens], 0 before the first sampled column.
    """
    first = batch.first_sampled
    width = batch.token_ids.shape[1]
    output = model(
        input_ids=batch.token_ids, attention_mask=batch.attention, use_cache=False, logits_to_keep=width - first + 1
    )
    scaled = output.logits[:, :-1].float() / temperature
    everything = scaled.log_softmax(-1)
    chosen = everything.gather(-1, batch.token_ids[:, first:, None]).squeeze(-1)
    with torch.no_grad():
        entropy = -(everything.exp() * everything).sum(-1)
    return torch.nn.functional.pad(chosen, (first, 0)), torch.nn.functional.pad(entropy, (first, 0))
