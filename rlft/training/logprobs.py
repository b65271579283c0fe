"""Runs a policy over a batch for the log-probabilities of its sampled tokens."""

from __future__ import annotations

from contextlib import nullcontext

from torch import Tensor

from rlft.attention.interface import attending
from rlft.head.selected import SelectedLogprobs, selected_logprobs
from rlft.policy import Policy
from rlft.policy.sharding import read_through
from rlft.training.batching import Batch


def token_logprobs(policy: Policy, batch: Batch, temperature: float, *, with_entropy: bool = True) -> SelectedLogprobs:
    """Return the log-probability of every sampled token given those before it, under softmax(logits / temperature).

    A packed batch that is to be differentiated under gradient checkpointing must be inside
    `rlft.attention.interface.attending` until its backward pass is over: layers are then computed again.

    Args:
        policy: The model that reads; a packed batch needs one whose `shares_prompts` is true.
        batch: Packed groups or padded rows.
        temperature: That of the sampling; the distribution sampled from is the one that is trained.
        with_entropy: Whether to compute entropies.

    Returns:
        Float [rollouts, tokens], 0 where no token was sampled: natural log-probabilities with gradient, and entropies
        in nats without.
    """
    split = policy.split  # its first use runs the model with its own attention, so it comes before `attending`
    inputs = {"input_ids": batch.token_ids, "position_ids": batch.positions, "use_cache": False}
    if batch.attention is not None:
        inputs["attention"] = batch.attention
    else:
        inputs["attention_mask"] = batch.attention_mask

    def read() -> tuple[Tensor | None, ...]:
        with attending(policy.model) if batch.attention is not None else nullcontext():
            hidden = split.backbone(**inputs)
        found = selected_logprobs(
            _taken(hidden.flatten(0, 1), batch.sources),
            split.head,
            batch.targets,
            temperature,
            with_entropy=with_entropy,
        )
        return found.logprobs, found.entropy

    logprobs, entropy = read_through(policy.sharded, read)
    assert logprobs is not None
    return SelectedLogprobs(batch.spread(logprobs), None if entropy is None else batch.spread(entropy))


def _taken(hidden: Tensor, places: Tensor) -> Tensor:
    """Return the rows at these places, of which some are there several times, so that gradients are the same each time.

    The threads of a CPU add up the gradient of `hidden[places]` in no order, and those of a GPU that of `index_select`.
    """
    return hidden.index_select(0, places) if hidden.device.type == "cpu" else hidden[places]
